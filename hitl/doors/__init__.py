"""Doors for protocols of others: each translates words, and holds no rule of its own."""
