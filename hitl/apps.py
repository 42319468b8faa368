from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.db.models.signals import post_migrate, pre_migrate
from django.utils.translation import gettext_lazy

from checkpoints.telemetry import log_lines
from hitl import checks as checks  # registers them
from hitl.http import rest


class HitlConfig(AppConfig):
    name = "hitl"
    verbose_name = gettext_lazy("Decisions and tokens")
    default_auto_field = "django.db.models.BigAutoField"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        if not hasattr(settings, "REST_FRAMEWORK"):
            settings.REST_FRAMEWORK = rest.FRAMEWORK

    def ready(self) -> None:
        from checkpoints.export import sections  # here: models are not there before
        from hitl.find import fulltext
        from hitl.ledger import triggers
        from hitl.outbound import messages
        from hitl.rendering import catalogues
        from hitl.threads import document
        from hitl.threads import tables as tables  # registers them, and those of the layers below
        from hitl.wait_gate import primitives, waits
        from runs.services import external_runs

        catalogues.compile_outdated()
        log_lines.install()
        sections.register(*document.SECTIONS)
        messages.CALLBACKS.append(primitives.callback)
        external_runs.ASKED_AGAIN.append(waits.follow)
        for module in (triggers, fulltext):
            pre_migrate.connect(module.take_off, sender=self)
            post_migrate.connect(module.install, sender=self)
