"""repo-tidy: a Python repository tidied with ruff, planned, approved and proved."""

from runs.contrib.repo_tidy.templates import STEP_TEMPLATES, TEMPLATES

__all__ = ["STEP_TEMPLATES", "TEMPLATES"]
