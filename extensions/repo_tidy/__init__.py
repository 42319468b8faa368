"""repo-tidy: a Python repository tidied with ruff, planned, approved and proved."""

__formerly__ = "runs.contrib.repo_tidy"
