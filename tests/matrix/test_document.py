"""The OpenAPI document is true: every operation is asked what it allows and what it forbids, and
the answers are judged by it.

Each request is taken back, so that all of them meet the world of the matrix.
tests/hitl/live/test_streams.py asks the streams.
"""

from __future__ import annotations

from typing import Any

import pytest
from drf_spectacular.generators import EndpointEnumerator, SchemaGenerator

from hitl.models import ApiToken
from runs.api.fields import TellsQuickly
from tests.databases.undone import undone
from tests.matrix.world import World

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]


@pytest.fixture
def told_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is told quickly is what the serializer beside it tells."""
    quickly = TellsQuickly.to_representation

    def both(serializer: Any, instance: Any) -> dict[str, Any]:
        told = quickly(serializer, instance)
        usual = super(TellsQuickly, serializer).to_representation(instance)
        assert list(told.items()) == list(usual.items())
        return told

    monkeypatch.setattr(TellsQuickly, "to_representation", both)


@pytest.mark.usefixtures("told_twice")
def test_every_operation_does_what_the_document_says(world: World) -> None:
    """Before, 279 answers were none that the document knew: no refusal was in it, lists were told
    as arrays, nulls as texts.
    """
    # here, since a second goes by where all processes that collect tests read the library
    from tests.doors import openapi

    _, secret = ApiToken.make(world.people["root"], name="document")
    ids = {
        name: value
        for name, value in {**world.states["paused"], **world.shared}.items()
        if not name.startswith("token")
    }
    found = openapi.breaches(ids, secret, around=undone)
    assert not found, "\n\n".join(f"{name}\n{words}" for name, words in found.items())


def test_every_list_has_one_shape() -> None:
    """Issue 30: `/limits`, comments, queues and events came as bare lists, all others as pages."""
    document = SchemaGenerator().get_schema(request=None, public=True)
    shapes = {}
    for path, operations in document["paths"].items():
        told = operations.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
        schema = told.get("application/json", {}).get("schema", {})
        if schema.get("type") == "array":
            shapes[path] = "a bare list"
        name = schema.get("$ref", "").rpartition("/")[2]
        held = document["components"]["schemas"].get(name, {}).get("properties", {})
        if "results" in held:
            shapes[path] = ", ".join(sorted(held))
    assert len(shapes) > 20
    odd = {path: shape for path, shape in shapes.items() if shape != "next, previous, results"}
    assert not odd


def test_what_reads_a_resource_and_what_writes_it_stand_in_one_module() -> None:
    """Before, GET and POST of work orders stood in two apps."""
    places: dict[str, set[str]] = {}
    for path, _, method, callback in EndpointEnumerator().get_api_endpoints():
        handler = getattr(callback.cls, method.lower())
        places.setdefault(path, set()).add(handler.__module__)
    assert len(places) > 50 and [path for path, found in places.items() if len(found) > 1] == []
