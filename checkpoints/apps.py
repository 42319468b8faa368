from django.apps import AppConfig
from django.conf import settings

from checkpoints import checks as checks  # registers them
from checkpoints import converters, redaction, sealing


class CheckpointsConfig(AppConfig):
    name = "checkpoints"
    verbose_name = "Threads and checkpoints"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        converters.register()
        # a project of somebody else's that only uses the stores has no such settings
        redaction.configure(getattr(settings, "WAYSTATION_REDACT", ()))
        sealing.configure(getattr(settings, "WAYSTATION_ENCRYPTION_KEYS", ()), secret=settings.SECRET_KEY)
