"""Patches as people read them: their files and lines, none left out, and these as HTML."""
