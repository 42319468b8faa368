"""Settings under which the model and the engine are quick."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

QUICK = settings(
    max_examples=20,
    stateful_step_count=30,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)
