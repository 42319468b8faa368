"""The Celery application: `celery -A project worker`, `celery -A project beat`."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

from hitl.host.celery import app as app  # Celery looks for the line above
