"""The memory in Django's admin: lists by key, and pages that only read."""

from django.apps import apps

# Django looks for what is registered here; a project without its admin uses the pages alone
if apps.is_installed("django.contrib.admin"):
    from checkpoints.admin import checkpoints as checkpoints
