"""Waits of other engines, and answers that systems hand in."""
