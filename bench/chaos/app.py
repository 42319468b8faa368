from django.apps import AppConfig


class ChaosConfig(AppConfig):
    name = "bench.chaos"

    def ready(self) -> None:
        from bench.chaos import orders, sabotage  # orders registers the steps; the engine's modules need the app registry

        assert orders
        sabotage.watch()
