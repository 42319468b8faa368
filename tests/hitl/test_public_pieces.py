"""The pieces that other programs build on, each of which does what it says; and the decisions
between the documents.
"""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path
from urllib.parse import urlencode

import pytest
from jsonschema import Draft202012Validator, ValidationError
from rest_framework.test import APIClient

from checkpoints.backends.memory import MemoryStore
from checkpoints.contract.base import Entry
from checkpoints.events import log
from checkpoints.models import EventKind
from hitl.models import ApiToken
from hitl.wait_gate import primitives
from runs.models import WorkOrder
from tests.conftest import drive, pause_of

TESTS = Path(__file__).resolve().parent.parent


@pytest.mark.django_db
def test_a_run_is_checkpointed_logged_asked_about_answered_and_restored_by_public_names(ana):
    """S2-3."""
    schema = {
        "type": "object",
        "required": ["vat_id"],
        "properties": {"vat_id": {"type": "string"}},
    }
    opened = primitives.create_checkpoint(
        "trace-1",
        "decide",
        {"invoice": 7},
        schema,
        "missing_supplier_data",
        by=ana,
        question="Which?",
    )
    thread = opened.pause.run.thread_id
    told = log.after(thread, 0)
    assert EventKind.AWAIT_HUMAN_INPUT in [event.kind for event in told]
    assert [event.seq for event in log.after(thread, told[0].seq)] == [
        event.seq for event in told[1:]
    ], "read on from any number"
    primitives.ingest_resume_event("trace-1", {"vat_id": "DE1"}, by=ana)
    restored = primitives.resume_from_checkpoint("trace-1", by=ana)
    assert (restored.node_id, restored.run_id) == ("decide", "trace-1")
    assert restored.state["invoice"] == 7 and restored.state["vat_id"] == "DE1"


@pytest.mark.one_database
def test_a_checkpointer_needs_nothing_else_of_the_product():
    """S2-3: a store by itself, for a program's own runs; what it gives back is what was put in."""
    store, thread, run = MemoryStore(), uuid.uuid4(), uuid.uuid4()
    first = store.put(thread, run, {"n": 1}, Entry(status="active", next_step="b"), parent=None)
    store.put(thread, run, {"n": 2}, Entry(status="completed"), parent=first.id)
    latest = store.latest(thread)
    assert latest is not None and store.load(thread, latest.id) == {"n": 2}
    assert store.load(thread, first.id) == {"n": 1}


@pytest.mark.django_db
def test_an_orchestrator_stops_answers_and_resumes_runs_with_a_token(make_order, ana, api):
    """S4-70: its tools are the same doors as everybody's, and each says which run it is about."""
    order, tool = make_order("writing-quick"), api(ana)
    address = f"/api/v1/work-orders/{order.shown_id}"
    run = tool.get(address).json()["run_id"]
    assert tool.post(f"{address}/suspend", format="json").status_code == 200
    order = drive(order)
    pause = tool.get(f"{address}/pause-state").json()
    assert (order.status, pause["run_id"], pause["id"]) == ("paused", run, pause_of(order).shown_id)
    paused = tool.get("/api/v1/runs?status=paused").json()["results"]
    assert [one["id"] for one in paused] == [run]
    assert (
        tool.post(f"{address}/resume", {"decision": "approve"}, format="json").json()["success"]
        is True
    )
    assert (drive(order).status, tool.get(address).json()["run_id"]) == ("completed", run)


class Orchestrator:
    """An agent's runtime that knows nothing but the definitions: it makes requests of the tools'
    calls.
    """

    def __init__(self, client):
        self.client = client
        self.tools = {
            tool["name"]: tool for tool in client.get("/api/v1/tools/definitions").json()["tools"]
        }

    def call(self, name, **arguments):
        tool = self.tools[name]
        Draft202012Validator.check_schema(tool["input_schema"])
        Draft202012Validator(tool["input_schema"]).validate(arguments)
        path = tool["path"]
        for key in re.findall(r"{(\w+)}", path):
            path = path.replace(f"{{{key}}}", arguments.pop(key))
        query = {key: arguments.pop(key) for key in tool["query"] if key in arguments}
        return self.client.generic(
            tool["method"],
            f"{path}?{urlencode(query)}",
            json.dumps(arguments),
            content_type="application/json",
        ).json()


@pytest.mark.django_db
@pytest.mark.one_database
def test_an_orchestrator_needs_nothing_but_the_definitions_of_its_tools(ana, api, templates):
    """S4-70: there were routes, and no definitions that a model could be given."""
    agent = Orchestrator(api(ana))
    order = agent.call("create_work_order", template="writing", user_request="A leaflet")["id"]
    drive(WorkOrder.objects.get())
    [waiting] = agent.call("list_runs", status="pending_input", mine=True)["results"]
    asked = agent.call("get_pause_state", order_id=order)
    assert asked["run_id"] == waiting["id"] and waiting["work_order_id"] == order
    assert (
        agent.call("resume_work_order", order_id=order, decision="revise", feedback="shorter")[
            "success"
        ]
        is True
    )
    assert agent.call("suspend_work_order", order_id=order)["success"]
    assert agent.call("cancel_work_order", order_id=order) == {"success": True}
    assert agent.call("get_work_order", order_id=order)["failure_code"] == "cancelled_by_user"
    with pytest.raises(ValidationError):
        agent.call("resume_work_order", order_id=order, decison="approve")


@pytest.mark.django_db
@pytest.mark.one_database
@pytest.mark.parametrize(
    ("scope", "can", "cannot"),
    [
        ("read", {"get_work_order"}, {"resume_work_order", "create_work_order"}),
        ("ask", {"create_work_order", "cancel_work_order"}, {"resume_work_order"}),
        (
            "answer",
            {"resume_work_order", "get_pause_state"},
            {"create_work_order", "get_work_order"},
        ),
    ],
)
def test_a_program_is_offered_the_tools_that_its_token_may_use(ana, scope, can, cannot):
    """S4-70: a program that asks is not even told how to answer."""
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {ApiToken.make(ana, name='x', scope=scope)[1]}")
    tools = set(Orchestrator(client).tools)
    assert can <= tools and not cannot & tools


NO_TEST = "no test can show it"
"""How the list says that a number is an order of work or a remark, and no behaviour."""


@pytest.mark.one_database
def test_every_number_is_named_by_a_test_or_says_why_none_can_be():
    """C1..31: eleven decisions were named by no test that would see a change of mind, and twelve
    demands neither.
    """
    page = (TESTS.parent / "docs" / "reference" / "requirements.md").read_text()
    entries = re.findall(
        r"^- \*\*([SCFP]\d+(?:-\d+)?)\*\*(.*(?:\n  .*)*)", page, flags=re.MULTILINE
    )
    known = {number for number, _ in entries}
    of_documents = {
        f"S{at}-{n}" for at, last in enumerate((83, 31, 33, 55, 75)) for n in range(1, last + 1)
    }
    assert of_documents <= known and len(entries) == len(known)
    excused = {number for number, words in entries if NO_TEST in " ".join(words.split())}
    named = {number for docstring in docstrings() for number in numbers_in(docstring)}
    assert known - named - excused == set(), "a test names them, or they say why none can"
    assert excused & named == set(), "a test does show it"


NUMBERS = re.compile(r"\b([SCFP])(\d+-)?(\d+)((?:(?:, |\.\.)\d+\b(?!-))*)")
"""`S0-1, 7, 40`, `S2-28..33`, `C16`."""


def numbers_in(docstring: str) -> set[str]:
    """The numbers that a docstring names, lists and ranges too."""
    found = set()
    for kind, document, first, more in NUMBERS.findall(" ".join(docstring.split())):
        last = int(first)
        found.add(f"{kind}{document}{last}")
        for sign, text in re.findall(r"(, |\.\.)(\d+)", more):
            begin = last + 1 if sign == ".." else int(text)
            found |= {f"{kind}{document}{n}" for n in range(begin, int(text) + 1)}
            last = int(text)
    return found


DOCSTRING = re.compile(
    r'^ *(?:async )?def test_\w+\((?:[^()]|\([^()]*\))*\)[^()]*:\n +r?"""(.*?)"""',
    re.DOTALL | re.MULTILINE,
)
"""Of a test. To parse all files would take seconds."""


def docstrings() -> list[str]:
    """Of all tests."""
    texts = (path.read_text() for path in TESTS.rglob("test_*.py"))
    return [docstring for text in texts for docstring in DOCSTRING.findall(text)]
