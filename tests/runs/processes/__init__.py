"""Programs of others: bounded, walled in, ended with all they started."""
