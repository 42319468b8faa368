"""Diffs and branches."""
