from django.apps import AppConfig


class ChaosConfig(AppConfig):
    name = "bench"

    def ready(self) -> None:
        from bench import chaos_steps  # noqa: F401  # registers the steps; the engine's modules need the app registry
