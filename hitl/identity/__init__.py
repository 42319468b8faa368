"""Who people are, and what acts without one."""
