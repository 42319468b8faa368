"""What operators look at first, and the invariants that hold."""
