"""What people ask of checkpoints: differences, trees of state, steps and branches."""
