"""Slack: questions are messages with buttons; what is pressed and filled in becomes an answer."""
