"""Programs that are not ours: run within bounds, walled in, and ended with all they started."""
