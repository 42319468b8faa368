"""Answers: who may give which, and what becomes of them."""
