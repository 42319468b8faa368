from django.apps import AppConfig


class SlowConfig(AppConfig):
    name = "tests"

    def ready(self) -> None:
        from tests.servers import slow_steps  # noqa: F401  # registers the steps
