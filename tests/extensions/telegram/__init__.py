"""Telegram: a bot against a stub of the Bot API."""
