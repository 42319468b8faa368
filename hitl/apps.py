from django.apps import AppConfig


class HitlConfig(AppConfig):
    name = "hitl"
    verbose_name = "People: decisions and tokens"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from hitl.portable import imported_patches  # here: models are not there before
        from runs import keeping

        keeping.ABOVE.append(imported_patches)
