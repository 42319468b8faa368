"""Threads with a history, and documents of them."""
