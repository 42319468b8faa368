from django.apps import AppConfig

from checkpoints import checks as checks  # registers them
from checkpoints import converters


class CheckpointsConfig(AppConfig):
    name = "checkpoints"
    verbose_name = "Memory: threads and checkpoints"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        converters.register()
