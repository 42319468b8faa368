"""What stands around every request: who asks, how often, how much, and once."""
