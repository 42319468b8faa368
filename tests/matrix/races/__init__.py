"""Many at one question at once, through every door."""
