from django.apps import AppConfig


class ChaosConfig(AppConfig):
    name = "bench.chaos"

    def ready(self) -> None:
        # orders registers the steps; the engine's modules need the app registry
        from bench.chaos import orders, sabotage

        assert orders
        sabotage.watch()
