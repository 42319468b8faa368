"""P6, F5: an effect runs for what was approved, and for nothing else."""

from __future__ import annotations

import copy
import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from checkpoints import ids, store
from checkpoints.models import Checkpoint
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import definitions
from runs import services as runs
from runs.engine import approvals
from runs.engine.approvals import DecisionRecord
from runs.engine.context.claimed_run import Progress
from runs.models import Pause, Run
from runs.workflows import registry
from runs.workflows.base import Context, Done, Go, Report, StepFailed
from tests.conftest import drive, fresh, head_of, pause_of
from tests.worlds.books import invoices
from tests.worlds.books.booking import House
from tests.worlds.repositories import UNTIDY, make_repository

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]


def approve(order, by, action="approve", feedback=""):
    services.decide(pause_of(order).pk, Answer(action, Via.PAGE, feedback=feedback), by=by)
    return drive(order)


def outcome(order):
    order = fresh(order)
    assert order.latest_run is not None
    return order.latest_run.status, order.latest_run.failure_code


@pytest.fixture
def sending(make_order, monkeypatch):
    """Makes orders that draft a letter, ask, and send it; gives them and what was sent."""
    sent: list[str] = []

    def draft(state, context):
        text = f"Dear reader {state['revision_feedback']}".strip()
        words = f"The letter, written for the {context.loop_num}. time:\n\n{text}"
        return Go(
            update={"letter": text},
            report=Report(content=words, facts={"To": "Ana"}, material={"letter": text}),
        )

    def send(state, context):
        context.require_approval("test.plan", {"letter": state["letter"]})
        sent.append(state["letter"])
        return Done()

    monkeypatch.setitem(registry._STEPS, "test.plan", draft)
    monkeypatch.setitem(registry._STEPS, "test.finish", send)
    planning = {
        "step_type": "planning",
        "step_template_slug": "test-plan",
        "pause_after": True,
        "pause_phase": "awaiting_plan_approval",
    }
    sending = {"step_type": "deliver", "step_template_slug": "test-finish"}

    def make(**planned):
        definitions.edit_template(
            "letters",
            steps=[{**planning, **planned}, sending],
            title="Letters",
            needs_repository=False,
        )
        return drive(make_order("letters"))

    return make, sent


def test_what_was_sent_back_is_done_as_it_came_to(sending, ben):
    make, sent = sending
    order = approve(make(), ben, "revise", "of mine")
    approve(order, ben)
    assert sent == ["Dear reader of mine"]


def test_a_state_that_was_changed_behind_the_approval_is_not_done(sending, ana, ben):
    """A fork with an edited state, behind the answer: the approval came along, but it is for
    another letter.
    """
    make, sent = sending
    order = approve(make(), ben)
    answered, state = after(order, "planning", "deliver")
    runs.fork(answered.pk, by=ana, reason="try", state={**state, "letter": "Dear fool"})
    order = drive(order)
    assert (outcome(order), sent) == (("failed", "content_changed"), ["Dear reader"])
    assert "Nothing was done" in fresh(order).latest_run.error
    runs.fork(answered.pk, by=ana, reason="as it was")
    assert (outcome(drive(order)), sent) == (("completed", ""), ["Dear reader", "Dear reader"])


def test_nothing_is_done_where_nobody_was_asked_though_the_template_asks(sending, ana, ben):
    """A fork behind a question, with the step that asks passed by."""
    make, sent = sending
    order = make()
    asked = head_of(order)
    services.decide(pause_of(order).pk, Answer("cancel", Via.PAGE), by=ben)
    Checkpoint.objects.filter(pk=asked.pk).update(status="active", next_step="deliver")
    runs.fork(asked.pk, by=ana, reason="around")
    assert (outcome(drive(order)), sent) == (("failed", "approval_missing"), [])


@pytest.mark.parametrize(
    ("optional", "ends"), [(True, ("completed", "")), (False, ("failed", "approval_missing"))]
)
def test_a_step_that_its_condition_passes_over_asked_nothing(sending, monkeypatch, optional, ends):
    make, _ = sending

    def checks(state, context):
        context.require_approval("planning", optional=optional)
        return Done()

    monkeypatch.setitem(registry._STEPS, "test.finish", checks)
    assert outcome(make(skip_when={"type": "object"})) == ends


def test_an_approval_survives_a_retry(sending, ben, monkeypatch):
    make, sent = sending
    order = make()
    tries = []
    effect = registry._STEPS["test.finish"]

    def fails_once(state, context):
        tries.append(context.approved("planning").action)
        if len(tries) == 1:
            raise ValueError("no post today")
        return effect(state, context)

    monkeypatch.setitem(registry._STEPS, "test.finish", fails_once)
    approve(order, ben)
    runs.retry(order.pk, by=ben)
    assert (outcome(drive(order)), sent, tries) == (
        ("completed", ""),
        ["Dear reader"],
        ["approve", "approve"],
    )


def test_only_what_is_material_is_bound(sending, ben):
    """Other words around the same letter are no other content; another letter is."""
    make, _ = sending
    one, same = pause_of(make()), pause_of(make())
    order = make()
    services.decide(pause_of(order).pk, Answer("revise", Via.PAGE, feedback="x"), by=ben)
    drive(order)
    assert one.content_digest == same.content_digest != pause_of(order).content_digest
    assert Pause.objects.filter(content_digest=one.content_digest).count() == 3


def test_a_step_called_outside_the_engine_needs_no_approval():
    Context.require_approval("anything", {"at": "all"})


def after(order, node, next_step):
    """The state and key of the answer's checkpoint between two steps."""
    found = Checkpoint.objects.filter(
        thread=order.thread_id, node_id=node, next_step=next_step
    ).latest("id")
    return found, copy.deepcopy(dict(store.load(found)))


def test_tidy_executes_no_other_plan_than_the_approved_one(templates, tmp_path, ana):
    """F5: also where a fork starts behind the approval with a plan that takes in more."""
    origin = make_repository(tmp_path / "origin", UNTIDY)
    order = drive(runs.submit("repo-tidy", by=ana, repository_url=str(origin)))
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    services.cancel_order(order.pk, by=ana, via=Via.PAGE)
    answered, state = after(order, "planning", "execute")
    state["plan"]["rules"][0]["files"].append("secrets.py")
    runs.fork(answered.pk, by=ana, reason="more", state=state)
    assert outcome(drive(order)) == ("failed", "content_changed")
    runs.fork(answered.pk, by=ana, reason="the approved one")
    assert drive(order).phase == "awaiting_implementation_review"


def test_smart_booking_posts_no_other_invoice_than_the_one_that_was_decided_about(
    make_order, settings, tmp_path, ana
):
    """F5, S3-51."""
    settings.WAYSTATION_SHARED, settings.WAYSTATION_FILES = (
        tmp_path / "shared",
        [tmp_path / "inbox"],
    )
    house = House(make_order, tmp_path, ana)
    order = house.book(invoices.without_vat_id())
    data = {"BT-31": "ATU12345675", "BT-84": invoices.STEEL_IBAN}
    services.decide(pause_of(order).pk, Answer("answer", Via.PAGE, payload=data), by=ana)
    services.cancel_order(order.pk, by=ana, via=Via.PAGE)
    answered, state = after(order, "decide", "decide")
    runs.fork(answered.pk, by=ana, reason="another file", state={**state, "document": "0" * 64})
    # of what somebody wrote nothing passes: a person is asked
    assert (outcome(drive(order)), len(house.ledger())) == (("paused", ""), 0)
    services.cancel_order(order.pk, by=ana, via=Via.PAGE)
    runs.fork(answered.pk, by=ana, reason="the file that was read")
    assert (outcome(drive(order)), len(house.ledger())) == (("completed", ""), 3)


class Known:
    """The ledger of these tests."""

    records: dict[str, DecisionRecord] = {}

    def find(self, keys):
        return {
            name: record for name, record in self.records.items() if ids.parse("dec", name) in keys
        }


@pytest.fixture(autouse=True)
def known(request, settings, monkeypatch):
    if "given" in request.fixturenames:
        settings.WAYSTATION_DECISIONS = f"{__name__}.Known"
        monkeypatch.setattr(Known, "records", {})


def approval(step, of, **other):
    about = dict.fromkeys(("pause_id", "thread_id", "run_id", "checkpoint_id"), uuid.UUID(int=1))
    same = {
        "definition": "d",
        "phase": "",
        "action": "approve",
        "goes_on": True,
        "answers": {"approve"},
        "revision": 1,
        "asked_revision": 1,
        "review": {},
    }
    digests = {"content_digest": "c", "asked_digest": "c", "material": approvals.digest_of(of)}
    rest = {"votes": 0, "by_rules": False, "external": ""}
    return DecisionRecord(
        **{
            "decision_id": ids.show("dec", ids.new()),
            "step": step,
            **about,
            **same,
            **digests,
            **rest,
            **other,
        }
    )


def require_last(
    approved=(),
    skipped=(),
    *,
    asks=("plan", "work"),
    material="now",
    edited=False,
    rules=None,
    optional=False,
    **other,
):
    """Ask for the last approval from the step `deliver`; `approved` is of pairs of step and
    material, the records are like `other`.
    """
    steps: list[Any] = [
        {"name": name, "function": f"f.{name}", "title": name, "pause_after": name in asks}
        for name in ("plan", "work", "tools", "deliver")
    ]
    for step in steps:
        step["review"] = (rules or {}).get(step["name"], {})
    given = [approval(name, of, **other) for name, of in approved]
    Known.records = {one.decision_id: one for one in given}
    names = {one.step: one.decision_id for one in given}
    metadata = {"approved": names, "skipped": list(skipped), **({"edited": True} if edited else {})}
    run: Any = SimpleNamespace(
        pk=uuid.UUID(int=1),
        thread_id=uuid.UUID(int=1),
        definition_id="d",
        frozen=SimpleNamespace(steps=steps),
    )
    progress = Progress(Run(), Checkpoint(metadata=metadata))
    held: Any = SimpleNamespace(run=run, steps=steps, progress=progress)
    approvals.require(held, "", material, at="deliver", optional=optional)
    return progress.relied


def test_what_counts_no_more_is_taken_from_no_checkpoint_that_was_read():
    run, head = Run(), Checkpoint(metadata={"approved": {"plan": "nobody's"}, "loops": {}})
    progress = Progress(run, head)
    progress.settle(*approvals.settle(run, head))
    assert progress.metadata == {"approved": {"plan": ""}, "loops": {}}
    assert head.metadata == {"approved": {"plan": "nobody's"}, "loops": {}}


@pytest.mark.parametrize(
    "given",
    [
        {"approved": [("plan", "plan"), ("work", "now")]},
        {
            "approved": [("plan", "plan"), ("work", "now"), ("tools", "a call")]
        },  # asked midway, by a step that the template does not pause after
        {"optional": True, "asks": ()},
        {"optional": True, "asks": (), "approved": [("tools", "a call")]},
        {"optional": True, "asks": ("deliver",)},  # it is asked after itself, not before
        {"optional": True, "skipped": ["plan", "work"]},
    ],
)
def test_the_last_approval_is_of_what_the_template_asks_about(given):
    require_last(**given)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({}, "approval_missing"),
        ({"optional": True}, "approval_missing"),
        ({"asks": ()}, "approval_missing"),
        ({"asks": (), "approved": [("tools", "a call")]}, "approval_missing"),
        ({"asks": ("deliver",)}, "approval_missing"),
        ({"skipped": ["plan", "work"]}, "approval_missing"),
        ({"approved": [("work", "now")], "approving": ()}, "not_approved"),
        ({"approved": [("work", "now")], "approving": (), "optional": True}, "not_approved"),
        ({"skipped": ["plan"]}, "approval_missing"),
        ({"approved": [("tools", "now")]}, "approval_missing"),
        ({"approved": [("plan", "plan")]}, "content_changed"),
        ({"approved": [("plan", "now"), ("work", "before")]}, "content_changed"),
        ({"skipped": ["plan", "work"], "edited": True}, "approval_missing"),
        ({"skipped": ["plan", "work"], "edited": True, "optional": True}, "approval_missing"),
        *(
            ({"approved": [("work", "now")], **other}, "content_changed")
            for other in (
                {"goes_on": False},
                {"phase": "suspended"},
                {"action": "else"},
                {"definition": "lax"},
                {"review": {"quorum": 2}},
                {"rules": {"work": {"quorum": 2}}, "review": {"quorum": 2}, "votes": 1},
                {"by_rules": True},
                {
                    "by_rules": True,
                    "rules": {"work": {"deadline": {"outcome": "expire"}}},
                    "review": {"deadline": {"outcome": "expire"}},
                },
                {"external": "eve@example.org"},
                {"asked_digest": "of something else"},
                {"asked_revision": 2},
                {"thread_id": uuid.UUID(int=2)},
                {"material": ""},
            )
        ),
    ],
)
def test_without_it_nothing_is_done(given, code):
    with pytest.raises(StepFailed) as refused:
        require_last(**given)
    assert refused.value.code == code
