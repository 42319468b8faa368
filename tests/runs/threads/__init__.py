"""Threads: what is asked of them and of their runs."""
