"""Endpoints of scripted models, in the protocols of their vendors."""
