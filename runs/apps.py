from django.apps import AppConfig


class RunsConfig(AppConfig):
    name = "runs"
    verbose_name = "Machine: work orders and runs"
    default_auto_field = "django.db.models.BigAutoField"
