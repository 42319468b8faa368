"""Untrusted Markdown, patches and texts as safe HTML."""
