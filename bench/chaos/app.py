from django.apps import AppConfig


class ChaosConfig(AppConfig):
    name = "bench.chaos"

    def ready(self) -> None:
        from bench.chaos import orders  # noqa: F401  # registers the steps; the engine's modules need the app registry
