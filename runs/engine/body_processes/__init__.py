"""Bodies of steps run in processes of their own, so that each can be ended whatever it does."""
