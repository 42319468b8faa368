"""Coding orders, and the command line agents that they start."""
