"""A question beside its list, and alone."""
