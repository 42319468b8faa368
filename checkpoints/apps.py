from django.apps import AppConfig
from django.conf import settings
from django.db.backends.signals import connection_created
from django.db.models.signals import pre_migrate
from django.utils.translation import gettext_lazy

from checkpoints import checks as checks  # registers them
from checkpoints import converters
from checkpoints.database import clock, older_database
from checkpoints.state import encryption, redaction


class CheckpointsConfig(AppConfig):
    name = "checkpoints"
    verbose_name = gettext_lazy("Threads and checkpoints")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        converters.register()
        connection_created.connect(clock.at_first_connection, dispatch_uid="clock")
        # before whatever other apps do then
        pre_migrate.connect(older_database.refuse, dispatch_uid="older_database")
        # a project of somebody else's that only uses the stores has no such settings
        redaction.configure(getattr(settings, "WAYSTATION_REDACT", ()))
        encryption.configure(
            getattr(settings, "WAYSTATION_ENCRYPTION_KEYS", ()), secret=settings.SECRET_KEY
        )
