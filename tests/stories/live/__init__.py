"""Clients that follow runs over real connections."""
