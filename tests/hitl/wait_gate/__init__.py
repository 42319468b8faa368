"""Waits of other engines, and answers that come early, late or twice."""
