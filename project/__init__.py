"""The project that wires the apps: settings, addresses, ASGI, Celery."""

import atexit
import gc

# while modules load nearly nothing is garbage, and looking for some took an eighth of each start
gc.set_threshold(50_000, 20, 100)
# with a process goes all that it holds: looking through it for garbage first took a third of a
# command's time, and of each stop
atexit.register(gc.freeze)

from project.celery import app as celery_app  # noqa: E402  # what loads comes after the line above

__all__ = ["celery_app"]
