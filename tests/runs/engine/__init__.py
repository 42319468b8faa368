"""Claim, step, record: what the engine promises to every run."""
