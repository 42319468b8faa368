"""What every store of checkpoints promises, and the stores that settings choose."""
