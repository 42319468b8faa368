"""Waystation in a project whose people are its own: no usernames, mail addresses to log in with."""
