"""Takes a run from checkpoint to checkpoint: claim, call the step, record all of it or nothing."""
