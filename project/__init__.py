"""The project that wires the apps: settings, addresses, ASGI, Celery."""

from project.celery import app as celery_app

__all__ = ["celery_app"]
