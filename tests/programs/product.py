"""All of the product read ahead, as far as that says nothing about whose it is.

Its modules, models, admin pages and addresses are what a start reads longest. What a program's
environment and arguments say comes afterwards, as ever: its settings, what apps do when they are
ready, checks. A program whose settings would have made those modules others starts again, cold.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django import conf, db
from django.apps import AppConfig, apps
from django.contrib import admin
from django.urls.converters import REGISTERED_CONVERTERS
from django.utils.functional import empty

from checkpoints import converters
from runs.engine.workers import shutdown

NOWHERE = Path(__file__).with_name("nowhere")
SETTINGS = "project.settings"
READ_AGAIN = ("runs.defaults", "hitl.host.settings")
"""Modules of settings that others hold."""
LOADED = (
    "autobahn.twisted.websocket",
    "axes.middleware",
    "channels.routing",
    "checkpoints.backends.database",
    "csp.middleware",
    "daphne.http_protocol",
    "daphne.ws_protocol",
    "django.contrib.staticfiles.storage",
    "drf_spectacular.checks",
    "extensions.agui.running",
    "extensions.booking.outcomes",
    "extensions.booking.reviewed",
    "extensions.coding.agents",
    "extensions.coding.command_config",
    "extensions.coding.commits",
    "extensions.coding.gate",
    "extensions.coding.hearing",
    "extensions.coding.prompts",
    "extensions.einvoice.file",
    "extensions.langgraph.api.protocol.sockets",
    "extensions.langgraph.api.server",
    "extensions.langgraph.graphs.drawing",
    "extensions.langgraph.graphs.inputs",
    "extensions.langgraph.graphs.questions",
    "extensions.mail_replies.channel",
    "extensions.mcp.accepted",
    "extensions.repo_tidy.feedback",
    "extensions.repo_tidy.planning",
    "extensions.repo_tidy.report",
    "extensions.slack.channel",
    "extensions.teams.channel",
    "extensions.telegram.channel",
    "hitl.channels.html",
    "hitl.host.doors",
    "hitl.http.compression",
    "hitl.http.refusals",
    "hitl.live.routing",
    "hitl.tasks",
    "hitl.threads.document",
    "hitl.views.cards.live_rows",
    "packaging.tags",
    "project.urls",
    "runs.tasks",
    "runs.turn_tasks",
    "service_identity",
    "twisted.internet.asyncioreactor",
    "twisted.protocols.tls",
    "twisted.web.http",
    "whitenoise.middleware",
)
"""What is read beside models and admin pages; not what makes Celery's or the server's application,
nor steps, which are registered by being read.
"""
READY = re.compile(
    r"^(allauth|axes|checkpoints|django\.contrib\.auth|extensions|hitl|project|runs)\b.*(urls$|\.admin\b)"
)
"""Addresses, and pages of the admin on its site."""
ABSENT = object()
# with what is theirs alone, and no type names
settings: Any = conf.settings
LazySettings: Any = conf.LazySettings
connections: Any = db.connections


def read() -> tuple[Any, dict[str, Any]]:
    """Read the product's modules under settings that name nothing.

    Gives these settings, and what was read of them meanwhile.
    """
    environment, arguments = dict(os.environ), sys.argv
    for name in environment:
        if name.startswith(("WAYSTATION_", "DATABASE_", "REDIS_")):
            del os.environ[name]
    os.environ.update(WAYSTATION_DATA=str(NOWHERE), DJANGO_SETTINGS_MODULE=SETTINGS)
    sys.argv = ["manage.py"]
    was_read: dict[str, Any] = {}
    look = LazySettings.__getattr__

    def noted(self: Any, name: str) -> Any:
        was_read.setdefault(name, getattr(self._wrapped, name, ABSENT))
        return look(self, name)

    # as `apps.populate` begins; to make ready is each program's own
    for each in map(AppConfig.create, settings.INSTALLED_APPS):
        each.apps = apps
        apps.app_configs[each.label] = each
    was_read["INSTALLED_APPS"] = settings.INSTALLED_APPS
    settings._wrapped = settings._wrapped  # what these looked at is seen again
    LazySettings.__getattr__ = noted
    apps.apps_ready = True
    for each in apps.get_app_configs():
        each.import_models()
    apps.models_ready = apps.ready = True
    converters.register()
    admin.autodiscover()
    for name in LOADED:
        importlib.import_module(name)
    # read once more in each: they hold what apps bring when they are ready
    for name in [name for name in sys.modules if READY.search(name)]:
        del sys.modules[name]
        parent, _, own = name.rpartition(".")
        if parent in sys.modules:
            delattr(sys.modules[parent], own)
    REGISTERED_CONVERTERS.clear()
    apps.apps_ready = apps.models_ready = apps.ready = False
    apps.app_configs.clear()
    apps.clear_cache()
    LazySettings.__getattr__ = look
    used, settings._wrapped = settings._wrapped, empty
    del connections["default"]  # models ask how long names may be; nothing was connected
    vars(connections).pop("settings")
    connections._settings = None
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments
    return used, was_read


def begin_anew(
    used: Any, was_read: dict[str, Any], cold: list[str], environment: Mapping[str, str]
) -> None:
    """The program's own settings are read where it asks for them. `cold`: its command line."""
    umask = os.umask(0)
    os.umask(umask)

    def setup(self: Any, name: str | None = None) -> None:
        LazySettings._setup = usual
        for each in READ_AGAIN:
            importlib.reload(sys.modules[each])
        del sys.modules[SETTINGS]
        # as `project` and `hitl.host.celery` do, which were read
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", SETTINGS)
        os.environ.setdefault("CELERY_SKIP_CHECKS", "1")
        usual(self, name)
        own: dict[str, Any] = {name: getattr(self._wrapped, name, ABSENT) for name in was_read}
        # further ones are read as ever; no database was asked
        own["INSTALLED_APPS"] = own["INSTALLED_APPS"][: len(was_read["INSTALLED_APPS"])]
        if own | {"DATABASES": was_read["DATABASES"]} != was_read:
            os.umask(umask)  # settings have changed it
            os.execve(cold[0], cold, environment)
        for key, value in vars(used).items():  # what libraries have added
            if not hasattr(self._wrapped, key):
                setattr(self._wrapped, key, value)

    usual = LazySettings._setup
    LazySettings._setup = setup
    shutdown.begin_anew()  # else all that begin here end with the first that is told to
