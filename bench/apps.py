from django.apps import AppConfig


class BenchConfig(AppConfig):
    name = "bench"

    def ready(self) -> None:
        from bench import workload  # these register their steps
        from bench.standalone import mixed

        assert workload
        assert mixed
