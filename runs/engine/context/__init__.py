"""What a step is handed, and what a worker knows of the run that it holds."""
