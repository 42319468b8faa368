"""The stores that checkpoints can be kept in. `checkpoints.configured` says which are chosen."""
