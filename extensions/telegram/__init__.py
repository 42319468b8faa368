"""Telegram: a bot has a button for each answer, and its webhook takes what is pressed."""
