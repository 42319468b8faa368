"""The ASGI application of the shipped project."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

from hitl.host.asgi import application as application  # it needs the line above
