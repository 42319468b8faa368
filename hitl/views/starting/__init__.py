"""Pages of what begins work: schedules, and messages from outside."""
