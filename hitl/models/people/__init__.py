"""Who people are, what they chose for themselves, and what acts in their name."""
