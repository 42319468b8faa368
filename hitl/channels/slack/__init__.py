"""Slack: what is pressed there, and filled in, becomes an answer."""
