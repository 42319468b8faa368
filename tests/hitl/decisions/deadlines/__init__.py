"""Deadlines: what fires, when, once, and what comes too late."""
