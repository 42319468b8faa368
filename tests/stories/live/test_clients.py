"""Clients that others' generators make of the OpenAPI document list, read, page and answer, against
the running product.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests import node
from tests.node import typescript
from tests.servers.stack import SlowStack, Stack

pytestmark = pytest.mark.stack


@pytest.fixture
def closing() -> Iterator[Callable[[Any], None]]:
    """Takes what is closed after the test."""
    with ExitStack() as stack:
        yield stack.enter_context


@pytest.fixture
def order(stack: SlowStack, token: Callable[[str], str]) -> str:
    """The younger of two work orders; it waits for an answer."""
    _, younger = [stack.begin("slow-asking", token("ana")) for _ in range(2)]
    stack.paused(younger, token("ana"), "awaiting_plan_approval")
    return younger


def test_a_python_client_lists_reads_pages_and_answers(
    stack: Stack,
    token: Callable[[str], str],
    order: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    closing: Callable[[Any], None],
) -> None:
    """Before, its lists were arrays, which no answer was, and of nulls it made errors."""
    document, config = tmp_path / "openapi.json", tmp_path / "config.yaml"
    status, told = stack.call("GET", "/api/schema/", headers={"Accept": "application/json"})
    assert status == 200, told
    document.write_text(json.dumps(told))
    config.write_text("post_hooks: []")  # it would tidy what it makes
    generator = Path(sys.executable).with_name("openapi-python-client")
    made = ["--meta", "none", "--output-path", str(tmp_path / "generated_client")]
    read = ["--path", str(document), "--config", str(config), "--fail-on-warning"]
    subprocess.run([generator, "generate", *read, *made], check=True, capture_output=True)
    monkeypatch.syspath_prepend(tmp_path)
    client = importlib.import_module("generated_client").AuthenticatedClient(
        base_url=stack.url, token=token("ana")
    )
    closing(client.get_httpx_client())

    def call(name: str, *path: str, **more: Any) -> Any:
        return importlib.import_module(f"generated_client.api.{name}").sync(
            *path, client=client, **more
        )

    first = call("work_orders.list_work_orders", limit=1)
    cursor = parse_qs(urlsplit(first.next_).query)["cursor"][0]
    second = call("work_orders.list_work_orders", limit=1, cursor=cursor)
    assert first.results[0].id != second.results[0].id
    one = call("work_orders.get_work_order", order)
    assert (one.status.value, one.error_message) == ("paused", None)
    pause = next(
        result
        for result in call("pauses.list_pauses", open_=True).results
        if result.agent_work_order_id == order
    )
    models = importlib.import_module("generated_client.models")
    given = call(
        "pauses.decide",
        pause.id,
        body=models.DecisionIn(decision="approve", revision=pause.revision),
    )
    assert (given.action, given.pause_id) == ("approve", pause.id)
    late = call("pauses.decide", pause.id, body=models.DecisionIn(decision="approve"))
    assert (type(late), late.status, late.code) == (models.Problem, 409, "pause_closed")


@pytest.mark.skipif(
    node.program("tsc") is None,
    reason="Node's programs are not on this machine: `make .venv/node` says why",
)
def test_a_typescript_client_lists_reads_pages_and_answers(
    stack: Stack, token: Callable[[str], str], order: str, tmp_path: Path
) -> None:
    """Against what the document says, `make check` type-checks it."""
    typescript.prepare(tmp_path)
    told = {"BASE_URL": stack.url, "TOKEN": token("ana"), "ORDER": order}
    environment = {**os.environ, "PATH": node.search_path(), **told}
    for words in (typescript.only_its_types_left_out(), ["node", "client.js"]):
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout) == {"status": 201, "refused": "pause_closed", "message": None}
