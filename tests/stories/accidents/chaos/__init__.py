"""Short games of `make chaos` and `make hosts`, and proofs that their faults break something."""
