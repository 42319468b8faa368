"""Answers from where people are: what a channel is, and what all channels have in common."""
