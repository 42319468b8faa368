"""Untrusted text, Markdown and patches as safe HTML."""
