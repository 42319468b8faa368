"""The memory in Django's admin: lists by key, and pages that only read."""

# Django looks for what is registered here
from checkpoints.admin import checkpoints as checkpoints
