"""Django, ready for the kit: set up as the product is, where the tests have not set it up."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

import django
from django.apps import apps
from django.conf import settings


def _configure() -> None:
    """Use the product's own settings where the test process has none.

    Nothing of a server that is set up on this machine is touched: data folder, database and broker
    are the process's own.
    """
    if not settings.configured and "DJANGO_SETTINGS_MODULE" not in os.environ:
        data = tempfile.mkdtemp(prefix="waystation-testing-")
        atexit.register(shutil.rmtree, data, ignore_errors=True)
        own = {
            "DJANGO_SETTINGS_MODULE": "project.settings",
            "WAYSTATION_DATA": data,
            "DATABASE_URL": f"sqlite:///{data}/unused.sqlite3",
            "CHECKPOINTS_URL": "database:",
            "REDIS_URL": "",
            "EMAIL_URL": "",
        }
        os.environ.update(own)
        os.environ.setdefault("LOG_LEVEL", "WARNING")
    if not apps.ready:
        django.setup()


_configure()
