"""The workflows that pages print do what the pages say, and the bodies that they print are
taken.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from langgraph.types import Command

from extensions.langgraph.graphs import named
from hitl.testing import play, survives_every_crash
from runs.agents.model.scripted import Wanted
from runs.agents.tools import registry as tools
from runs.workflows import Done, Go, StepFailed, registry, step, use, workflow
from tests.conftest import drive, fresh, pause_of
from tests.documents.blocks import blocks

pytestmark = pytest.mark.one_database
PAGE = "docs/how-to/bulk-bodies.md"
Printed = Callable[..., ModuleType]
REGISTRIES = {
    registry: ("_STEPS", "_LATEST", "_TRAITS"),
    tools: ("_TOOLS",),
    named: ("_REGISTERED",),
}
"""Where a module registers its steps, tools and graphs."""


@pytest.fixture
def printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Printed]:
    """The Python of a page as a module; with `only` one block, or `before` them what they need.
    What it registers is gone behind the test.
    """
    made: list[str] = []
    for module_of, names in REGISTRIES.items():
        for name in names:
            monkeypatch.setattr(module_of, name, dict(getattr(module_of, name)))

    def module(page: str, *, only: int | None = None, before: str = "") -> ModuleType:
        found = [block.text for block in blocks(page) if block.language == "python"]
        name = f"printed_{Path(page).stem.replace('-', '_')}"
        text = "\n\n".join(found if only is None else [found[only]])
        (tmp_path / f"{name}.py").write_text(f"{before}\n{text}")
        made.append(name)
        return importlib.import_module(name)

    monkeypatch.syspath_prepend(str(tmp_path))
    yield module
    for name in made:
        sys.modules.pop(name, None)


def test_a_purchase_branches_by_value_by_answer_and_back(printed):
    page = printed("docs/how-to/branching.md")
    assert play(page.purchase, input={"what": "A lamp", "price": 80}).approve().done
    run = play(page.purchase, input={"what": "A desk", "price": 1500}).approve()
    assert run.question.step == "release"
    assert run.approve().done
    run = play(page.purchase, input={"what": "A desk", "price": 1500}).approve()
    run.revise("Too dear.").answer(price=1200)
    assert run.question.step == "propose", "another price is asked about anew"
    run.answer("negotiate").answer(price=900)
    assert run.question.step == "propose"
    assert run.approve().done and page.ORDERED == [80, 1500, 900]


def test_what_was_cancelled_or_expired_is_cleaned_up(printed):
    page = printed("docs/how-to/cleanup-on-cancel.md")
    page.test_a_cancelled_trip_gives_its_room_back()
    page.test_an_expired_one_does_too()
    page.test_whoever_dies()


def test_a_failed_deployment_leads_to_the_rollback_that_a_person_approves(printed):
    page = printed("docs/how-to/failures-and-ends.md")
    run = play(page)
    while run.wakes_at and not run.questions:
        run.advance(until=run.wakes_at)
    assert run.question.content == "The cluster is full. (cluster_full, 3 tries)"
    assert run.approve().done and page.LIVE == ["v1", "v0"]


def test_stages_child_runs_and_a_graph_ask_several_at_once(printed, settings):
    settings.WAYSTATION_GRAPHS = {"pair": "printed_parallel_questions:pair"}
    page = printed("docs/how-to/parallel-questions.md")
    run = play(page.press, title="A new lamp").approve(stage="brand").approve(stage="legal")
    assert run.approve().done
    run = play(page.hire)
    assert [question.child for question in run.questions] == ["it", "payroll", "desk"]
    run.approve(at="desk").cancel("No laptop.", at="it").approve(at="payroll")
    assert run.done and run.state["conclusion"] == "Ready: desk, payroll"
    run = play(page.asked_twice, title="Tea")
    assert {question.title for question in run.questions} == {"Legal: Tea?", "Brand: Tea?"}
    run.approve(at="brand").approve(at="legal", by="ada")
    assert run.state["answers"] == ["brand: True", "legal: True"]


@pytest.fixture
def own_loop() -> Iterator[None]:
    """The event loop that `run_sync` takes in this thread; one that it made would stay open."""
    with asyncio.Runner() as runner:
        runner.get_loop()
        yield


@pytest.mark.usefixtures("own_loop")
def test_an_agent_of_pydantic_ai_makes_what_people_approved_once(printed, monkeypatch):
    page = printed("docs/how-to/pydantic-ai.md")
    page.test_less_is_paid_where_a_person_says_so(monkeypatch)
    monkeypatch.setattr(page, "MODEL", page.FunctionModel(page.scripted))
    survives_every_crash(
        page.desk,
        request="Order A-1.",
        answers=[{"calls": {"c1": {"decision": "approve"}}}],
        fresh=page.PAID.clear,
        idempotent=[page.pay],
        ignore=["messages"],  # they say when
    )
    assert list(page.PAID.values()) == [120.0]
    page.PAID.clear()
    run = play(page.desk, request="Order A-1.")
    run.answer(calls={"c1": {"decision": "reject", "reason": "Not yet."}})
    assert run.done and page.PAID == {} and "Not yet." in json.dumps(run.state["messages"])


def test_a_tool_beside_a_workflow_is_there_when_its_module_is_imported(printed):
    """Before, the page said that an app's `ready()` had to import it."""
    sent: list[Any] = []

    class PostOffice:
        @staticmethod
        def send(text: str, key: str, idempotency_key: str) -> str:
            sent.append((text, key))
            return "sent"

    page = printed("docs/how-to/tools.md", before="ADDRESS = 'https://post.example.org/letters'")
    page.post_office = PostOffice
    agent = workflow(
        "printed-agent", title="Letters", steps=[use("agent", config={"tools": ["send_letter"]})]
    )
    run = play(
        agent,
        request="Write.",
        credentials={"POST_OFFICE": "a key"},
        model=[Wanted("send_letter", '{"text": "Hello"}'), "Done."],
    )
    (call,) = run.question.calls
    run.answer(calls={call["id"]: {"decision": "approve"}})
    assert run.done and sent == [("Hello", "a key")]


def test_rows_are_gathered_and_those_that_fail_are_told_of(printed):
    page = printed("docs/how-to/rate-and-concurrency.md")

    @step("printed.row")
    def row(state: Any, context: Any) -> Any:
        if state["row"] == 3:
            raise StepFailed("No such customer.")
        return Done(update={"written": state["row"]})

    @step("printed.read")
    def read(state: Any, context: Any) -> Any:
        return Go(update={"rows": [1, 2, 3]})

    job = workflow(
        "printed-rows",
        title="Rows",
        steps=[read, use(page.rows, sub_steps=[row]), page.report],
    )
    run = play(job)
    while not run.done and run.wakes_at:
        run.advance(until=run.wakes_at)
    assert run.state["conclusion"] == "2 rows done, 1 not."


def test_a_refund_is_the_same_job_here_and_in_a_graph(printed):
    here = printed("docs/explanation/other-engines.md", only=-1)
    run = play(here.refunds, input={"order": "A-1", "amount": 120}).approve()
    assert run.question.step == "finance"
    run.approve().advance(days=1)
    assert run.done and list(here.TOLD.values()) == ["120 EUR for A-1"]


def test_the_graph_of_the_same_job_asks_twice_and_pays(printed):
    before = (
        "from typing import TypedDict\nfrom types import SimpleNamespace\n"
        "from langgraph.checkpoint.memory import InMemorySaver\n"
        "from langgraph.graph import END, START, StateGraph\n"
        "from langgraph.types import Command, interrupt\n"
        "checkpointer = InMemorySaver()\n"
        "bank = SimpleNamespace(pay=lambda order, amount: f'{order}: {amount}')\n"
    )
    there = printed("docs/explanation/other-engines.md", only=-2, before=before)
    thread: Any = {"configurable": {"thread_id": "1"}}
    asked = there.app.invoke({"order": "A-1", "amount": 120}, thread)
    assert asked["__interrupt__"][0].value["to"] == "support"
    asked = there.app.invoke(Command(resume={"yes": True}), thread)
    assert asked["__interrupt__"][0].value["to"] == "finance"
    assert there.app.invoke(Command(resume={"yes": True}), thread)["receipt"] == "A-1: 120"


@pytest.mark.django_db
def test_the_bodies_of_the_page_on_many_at_once_are_taken(make_order, ana, api):
    ana.user_permissions.set(Permission.objects.filter(codename__in=("view_run", "change_run")))
    client = api(ana)
    orders = [drive(make_order()) for _ in range(2)]
    [first, second] = [pause_of(order) for order in orders]
    digest = client.get(f"/api/v1/pauses/{second.shown_id}").json()["content_digest"]
    here = {
        "pse_1": first.shown_id,
        "pse_2": second.shown_id,
        "wo_1": orders[0].shown_id,
        "wo_2": orders[1].shown_id,
        "[0-9a-f]{64}": digest,
    }

    def body(text: str) -> Any:
        for was, now in here.items():
            text = re.sub(was, now, text)
        return json.loads(text)

    printed = (body(block.text) for block in blocks(PAGE) if block.language == "json")
    answer, cancel, retry = printed
    looked = {key: cancel[key] for key in ("action", "orders")}
    seen = client.post("/api/v1/batches/preview", looked, format="json").json()
    assert len(seen["orders"]) == 2 and set(seen) == {"orders", "left_out", "more", "steps"}
    given = client.post("/api/v1/pauses/bulk", answer, format="json").json()
    assert [result["decided"] for result in given["results"]] == [True, True], given
    again = client.post("/api/v1/pauses/bulk", answer, format="json").json()
    assert {result["code"] for result in again["results"]} == {"pause_closed"}
    done = client.post("/api/v1/batches", cancel, format="json").json()
    assert [line["code"] for line in done["lines"]] == ["", ""]
    assert {fresh(order).latest_run.failure_code for order in orders} == {"cancelled_by_user"}
    assert client.post("/api/v1/batches/preview", retry, format="json").status_code == 200
