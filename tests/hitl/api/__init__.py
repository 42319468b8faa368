"""REST, noun by noun."""
