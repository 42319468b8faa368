"""Pictures that the server draws: a workflow's steps, and where a run's time went."""
