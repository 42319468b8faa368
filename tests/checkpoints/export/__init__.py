"""Threads as documents: out, in, tampered with, verified."""
