from django.apps import AppConfig


class HitlConfig(AppConfig):
    name = "hitl"
    verbose_name = "People: decisions and tokens"
    default_auto_field = "django.db.models.BigAutoField"
