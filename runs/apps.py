import sys
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy

from checkpoints.database import clock
from checkpoints.security import private_files
from runs import checks as checks  # registers them
from runs import defaults, env
from runs.agents import model
from runs.workflows import timing


class RunsConfig(AppConfig):
    name = "runs"
    verbose_name = gettext_lazy("Work orders and runs")
    default_auto_field = "django.db.models.BigAutoField"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        defaults.fill(settings)  # here: models that are read next look at some

    def ready(self) -> None:
        from checkpoints.export import sections  # here: models are not there before
        from runs import export
        from runs.definitions import shipped
        from runs.schedules import declared
        from runs.threads import tables as tables  # registers them, and the memory's

        private_files.tighten(
            getattr(settings, "WAYSTATION_PRIVATE", ()),
            umask=getattr(settings, "WAYSTATION_UMASK", 0),
        )
        timing.go_by(clock.now)
        shipped.follow(declared.settle)
        try:
            shipped.register(authors=not env.reloads(sys.argv))
        except ImproperlyConfigured as error:
            if not env.serves(sys.argv):
                raise
            # servers of others would end with a traceback
            raise SystemExit(f"Waystation cannot start: {error}") from None
        sections.register(*export.SECTIONS)
        model.configure(
            model.ModelServer(
                default=settings.WAYSTATION_MODEL,
                prices=settings.WAYSTATION_MODEL_PRICES,
                silence=settings.WAYSTATION_MODEL_SILENCE,
                history=settings.WAYSTATION_MODEL_HISTORY,
                allow=settings.WAYSTATION_MODEL_ALLOW,
            )
        )
