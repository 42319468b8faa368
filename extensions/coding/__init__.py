"""Coding orders: plan, change and review, by a command line agent or an agent of ours."""

__formerly__ = "runs.contrib.coding"
