"""Work orders, templates and tools over REST."""
