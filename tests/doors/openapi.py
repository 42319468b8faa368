"""For tests that hold the REST API to its own OpenAPI document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import schemathesis
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from schemathesis.config import SchemathesisConfig
from schemathesis.core.failures import AcceptedNegativeData, FailureGroup
from schemathesis.generation import GenerationMode, overrides
from schemathesis.generation.drivers import CoverageGenerator
from schemathesis.generation.feedback import NO_FEEDBACK
from schemathesis.generation.hypothesis.builder import generate_example_cases
from schemathesis.generation.meta import CoverageScenario, content_type_probes_first
from schemathesis.specs.openapi.checks import ignored_auth

from hitl.http import idempotency

STREAMS = "/stream$"
"""They do not end by themselves, and are no part of Django."""
SETTINGS: dict[str, Any] = {
    "generation": {
        # JSON Schema cannot say that a text has no NUL, and none here may have one
        "allow-x00": False,
    },
    # tests/matrix/test_permissions.py asks every address for every method
    "phases": {"coverage": {"unexpected-methods": []}},
    "checks": {
        # 422 is for what fits the document and cannot be all the same, such as a template that is
        # not there
        "positive_data_acceptance": {
            "expected-statuses": ["2xx", "304", "401", "403", "404", "409", "410", "422", "429"]
        },
    },
}


ALIKE = 1
"""So many values of one sort (a wrong type, too long, some fields of many) are tried at each place
of each operation.
"""
SECOND_ADDRESSES = "/api/agent-work-orders"
"""What is served there by the same views has its first address as well, which is asked all."""
OWN_HEADERS = ("Content-Type", "Authorization")
"""Those that are tried: the only other one is a key, without which each request is sent."""
LENIENT = "Incorrect type"
"""A number or a flag where a text is wanted, and the like, is read as that: 0 as "0" or false.

No program that worked is refused for it.
"""


def is_meant(failure: Any, words: str) -> bool:
    """Whether the answer is as it should be all the same."""
    return isinstance(failure, AcceptedNegativeData) and LENIENT in words


def _kind(case: Any) -> tuple[str, ...]:
    """Of what sort a request is, and at which place of its operation."""
    told = getattr(case.meta.phase, "data", None)
    sort = str(getattr(told, "scenario", type(told).__name__))
    places = (getattr(told, name, "") for name in ("parameter_location", "parameter", "location"))
    return (case.operation.label, sort, *map(str, places))


def _is_usual(kind: tuple[str, ...]) -> bool:
    return kind[1] in {CoverageScenario.DEFAULT_POSITIVE_TEST, "ExamplesPhaseData"}


def _cases(config: Any, operation: Any, *, usual: bool) -> Iterator[Any]:
    """The requests that are made of an operation: what its document gives as examples, and each
    value at the edge of what it allows, on both sides. `usual`: on the inner side alone.

    They are asked one by one: with Hypothesis around, which the library has, each takes half as
    long again, and random values find nothing that the edges do not.
    """
    override = overrides.with_config_headers(config, operation=operation)
    told = generate_example_cases(
        test=_cases,
        operation=operation,
        fill_missing=False,
        feedback=NO_FEEDBACK,
        **override.as_strategy_kwargs(),
    )
    edges = CoverageGenerator(
        operation=operation,
        generation_modes=[GenerationMode.POSITIVE] if usual else [*GenerationMode],
        generation_config=config.generation_for(operation=operation, phase="coverage"),
        auth_storage=None,
        override=override,
        feedback=NO_FEEDBACK,
    )
    yield from reversed(content_type_probes_first(edges))
    yield from told


def breaches(
    ids: Mapping[str, str], secret: str, *, around: Callable[[], AbstractContextManager[None]]
) -> dict[str, str]:
    """Ask every operation what the document allows and what it forbids; gives what the answers
    break, by operation and rule.

    Args:
        ids: names of arguments of addresses → what to ask for.
        secret: of the token that asks.
        around: entered for each request.
    """
    config = SchemathesisConfig.from_dict(
        {**SETTINGS, "parameters": {f"path.{name}": value for name, value in ids.items()}}
    )
    found: dict[str, str] = {}
    # what it reads is no answer that a client has unpacked
    headers = {"Authorization": f"Bearer {secret}", "Accept-Encoding": "identity"}
    asked: Counter[tuple[str, ...]] = Counter()
    served: set[str] = set()

    def ask(case: Any) -> None:
        kind = _kind(case)
        if kind[2].endswith("HEADER") and kind[3] not in OWN_HEADERS:
            return
        asked[kind] += 1
        if asked[kind] > ALIKE:
            return
        # used for another request before, it is refused, whatever the request is
        (case.headers or {}).pop(idempotency.HEADER, None)
        name = case.operation.label
        # with no token and with a wrong one an operation is asked once, as by schemathesis's runner
        known = [ignored_auth] if name in served else []
        with around():
            try:
                answer = case.call_and_validate(headers=headers, excluded_checks=known)
                if 200 <= answer.status_code < 300:
                    served.add(name)
            except FailureGroup as failures:
                for exception in failures.exceptions:
                    if not is_meant(exception, str(failures)):
                        found.setdefault(
                            f"{case.operation.label}: {exception.title}", str(failures)[:2000]
                        )

    with kept_connections():
        schema = schemathesis.openapi.from_wsgi("/api/schema/", WSGIHandler(), config=config)
        for result in schema.exclude(path_regex=STREAMS).get_all_operations():
            operation = result.ok()
            second = operation.path.startswith(SECOND_ADDRESSES)
            for case in _cases(schema.config, operation, usual=second):
                if not second or _is_usual(_kind(case)):
                    ask(case)
    return found


@contextmanager
def kept_connections() -> Iterator[None]:
    """No request closes the connection to the database, as none of Django's own client for tests
    does: it holds what is taken back.
    """
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    try:
        yield
    finally:
        for signal in signals:
            signal.connect(close_old_connections)
