from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.db.models.signals import post_migrate, pre_migrate

from hitl import checks as checks  # registers them
from hitl import rest


class HitlConfig(AppConfig):
    name = "hitl"
    verbose_name = "Decisions and tokens"
    default_auto_field = "django.db.models.BigAutoField"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        if not hasattr(settings, "REST_FRAMEWORK"):
            settings.REST_FRAMEWORK = rest.FRAMEWORK

    def ready(self) -> None:
        from hitl import evidence, guards, waitgate  # here: models are not there before
        from hitl.outbound import log_lines, messages
        from hitl.portable import imported_patches
        from runs import keeping

        log_lines.install()
        messages.CALLBACKS.append(waitgate.callback)
        keeping.ABOVE.extend((imported_patches, evidence.kept))
        pre_migrate.connect(guards.take_off, sender=self)
        post_migrate.connect(guards.install, sender=self)
