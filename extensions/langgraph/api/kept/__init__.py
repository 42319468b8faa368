"""What a person keeps through this door: schedules, and saved configurations of templates."""
