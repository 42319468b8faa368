"""Credentials, and where they may be sent."""
