"""Slack: what is signed, pressed, filled in and posted."""
