"""Coding orders: plan, change and review, by a command line agent or an agent of ours."""

from runs.contrib.coding.templates import STEP_TEMPLATES, TEMPLATES

__all__ = ["STEP_TEMPLATES", "TEMPLATES"]
