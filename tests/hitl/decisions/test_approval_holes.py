"""P6, at REST: nothing is paid behind a review without the decision that its rules demand over just
that. Each hole was one once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkpoints import ids
from checkpoints.models import Checkpoint, Thread
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Decision, Via
from runs import definitions
from runs import services as runs
from runs.engine import approvals
from runs.engine.advance import advance
from runs.models import Pause, Run
from runs.threads import turns
from runs.workflows.base import Child, Context, Gather, Go, Outcome, Report, State
from runs.workflows.registry import step
from runs.workflows.tool_calls import Call, approved
from runs.workflows.wait_for_input import ask_about_calls
from tests.worlds.histories.whole_story import broken
from tests.worlds.ruled_order import rest

pytestmark = pytest.mark.django_db

RULES = {"reviewers": {"users": ["ben"]}, "self_approval": False}
PAID: list[Any] = []
WIRED: list[str] = []
WIRE = Call(id="wire", tool="wire", arguments={"to": "eve"}, risk="high")


@step("paying.propose")
def propose(state: State, context: Context) -> Outcome:
    return Go(report=Report(content=f"Pay {state.get('amount')}?"))


@step("paying.between")
def between(state: State, context: Context) -> Outcome:
    return Go()


@step("paying.pay")
def pay(state: State, context: Context) -> Outcome:
    """It names no material, so the whole state is."""
    context.require_approval("propose")
    PAID.append(state.get("amount"))
    return Go()


@step("paying.each")
def each(state: State, context: Context) -> Outcome:
    return Gather(children=[Child(name="one")])


@step("paying.wire")
def wire(state: State, context: Context) -> Outcome:
    if asked := ask_about_calls(state, context, calls=[WIRE]):
        return asked
    WIRED.extend(str(call.arguments["to"]) for call in approved(context, context.step, [WIRE]))
    return Go()


def a_step(name: str, **more: Any) -> dict[str, Any]:
    return {"step_type": "execute", "name": name, "step_template_slug": f"paying-{name}", **more}


PAUSING: dict[str, Any] = {"pause_after": True, "pause_phase": "awaiting_plan_approval"}
EMPTY: dict[str, Any] = {
    "type": "object",
    "properties": {"amount": {"const": 0}},
    "required": ["amount"],
}
TEMPLATES: dict[str, list[dict[str, Any]]] = {
    "strict": [a_step("propose", **PAUSING, review=RULES), a_step("between"), a_step("pay")],
    "mild": [a_step("propose", **PAUSING), a_step("between"), a_step("pay")],
    "mild-too": [
        a_step("propose", **PAUSING),
        a_step("between"),
        a_step("pay"),
        {**a_step("between"), "name": "end"},
    ],
    "lax": [a_step("propose"), a_step("between"), a_step("pay")],
    "empty": [
        a_step("between"),
        a_step("propose", **PAUSING, review=RULES, skip_when=EMPTY),
        a_step("pay"),
    ],
    "many": [a_step("propose", **PAUSING, review=RULES), a_step("each"), a_step("pay")],
    "wiring": [a_step("between"), a_step("wire")],
}


def made(slug: str) -> str:
    """The template, once it is there."""
    definitions.edit_template(slug, steps=TEMPLATES[slug], title=slug, needs_repository=False)
    return slug


@pytest.fixture
def paying(templates, ana, ben, team) -> Thread:
    """Ana's thread.

    `strict` pays what Ben has approved, `mild` what anybody has, `lax` asks nobody.
    """
    PAID.clear()
    WIRED.clear()
    for name in ("propose", "between", "pay", "wire"):
        definitions.edit_step_template(f"paying-{name}", title=name, function=f"paying.{name}")
    definitions.edit_step_template(
        "paying-each", title="each", function="paying.each", sub_steps=[a_step("between")]
    )
    return turns.open_thread(by=ana, title="Paying", team=team)


@pytest.fixture
def post(ana) -> Callable[..., Any]:
    """`post(path, **body)`: as Ana, over REST; then workers work."""

    def post(path: str, **body: Any) -> Any:
        response = rest(ana).post(f"/api/v1/{path}", body, format="json")
        work()
        return response

    return post


def work() -> None:
    while pending := list(Run.objects.filter(status="pending")):
        for run in pending:
            advance(run.pk, budget=60)


def answer(by, action="approve"):
    services.decide(Pause.objects.open().get().pk, Answer(action, Via.PAGE), by=by)
    work()


def written() -> tuple[int, ...]:
    return tuple(model.objects.count() for model in (Run, Checkpoint, Pause, Decision))


def last() -> Run:
    return Run.objects.filter(parent=None).latest("pk")


def begin(post, thread, template, **body):
    assert (
        post(
            f"threads/{thread.shown_id}/runs",
            template=made(template),
            input={"amount": 10},
            **body,
        ).status_code
        == 201
    )
    run: Run = last()
    return run


def behind(thread, next_step="pay") -> Checkpoint:
    return Checkpoint.objects.filter(thread=thread, next_step=next_step, status="active").latest(
        "pk"
    )


@pytest.fixture(params=["interrupt", "suspension"])
def stopped(request, paying, post, ben) -> Run:
    """A run that Ben approved, and that Ana stopped before it pays."""
    wanted = request.param == "interrupt"
    run: Run = begin(post, paying, "strict", **({"interrupt_before": ["pay"]} if wanted else {}))
    services.decide(Pause.objects.open().get().pk, Answer("approve", Via.PAGE), by=ben)
    if not wanted:
        runs.suspend_run(run, by=paying.owner)
    work()
    assert Pause.objects.open().get().phase == ("interrupted_before" if wanted else "suspended")
    return run


def test_an_object_at_a_stop_changes_nothing_behind_a_review(stopped, post):
    """The requester answered a stop behind Ben's approval, and 999 was paid."""
    before = written()
    refused = post(f"runs/{stopped.shown_id}/input", input={"amount": 999})
    assert (refused.status_code, refused.json()["code"], written()) == (
        409,
        "review_stands",
        before,
    )
    assert post(f"runs/{stopped.shown_id}/input", input={"input": "APPROVE"}).status_code in {
        200,
        201,
    }
    work()
    while Pause.objects.open().exists():
        answer(stopped.thread.owner)
    assert (last().status, PAID, broken()) == ("completed", [10], {})


def test_where_anybody_may_approve_the_object_takes_the_approval_away(paying, post, ana):
    """It was merged into what had been approved."""
    run = begin(post, paying, "mild", interrupt_before=["pay"])
    answer(ana)
    assert post(f"runs/{run.shown_id}/input", input={"amount": 999}).status_code in {200, 201}
    assert (last().failure_code, PAID, broken()) == ("content_changed", [], {})


def test_a_child_runs_stop_is_no_way_into_what_its_parent_had_approved(paying, post, ben):
    """What a child run changes joins its parent's state, behind its parent's review."""
    begin(post, paying, "many", interrupt_before=["each/between"])
    answer(ben)
    child = Run.objects.get(parent__isnull=False)
    refused = post(f"runs/{child.shown_id}/input", input={"amount": 999})
    assert (refused.status_code, refused.json()["code"]) == (409, "review_stands")
    answer(paying.owner)
    assert (PAID, broken()) == ([10], {})


@pytest.mark.parametrize("first", ["lax", "mild"])
def test_another_template_over_a_checkpoint_begins_behind_no_review(paying, post, ana, first):
    """It ran strict's step under lax's approval, or under none."""
    begin(post, paying, first)
    if first == "mild":
        answer(ana)
    PAID.clear()
    before = written()
    refused = post(
        f"threads/{paying.shown_id}/runs",
        template=made("strict"),
        checkpoint_id=behind(paying).shown_id,
    )
    assert (refused.status_code, refused.json()["code"], PAID, written()) == (
        409,
        "review_stands",
        [],
        before,
    )


def test_another_template_has_none_of_the_approvals(paying, post, ana):
    begin(post, paying, "mild")
    answer(ana)
    PAID.clear()
    assert (
        post(
            f"threads/{paying.shown_id}/runs",
            template=made("mild-too"),
            checkpoint_id=behind(paying).shown_id,
        ).status_code
        == 201
    )
    assert (last().failure_code, PAID, broken()) == ("approval_missing", [], {})


def forged(paying, post, ben, case: str) -> Run:
    """A run of `mild` that is about to pay, whose checkpoint names what nobody may take for an
    approval.
    """
    other = turns.open_thread(by=paying.owner, team=paying.team)
    begin(post, other, "mild")
    answer(ben)
    elsewhere = Decision.objects.get().shown_id
    PAID.clear()
    run: Run = begin(post, paying, "mild", interrupt_before=["pay"])
    answer(ben)
    services.decide(Pause.objects.open().get().pk, Answer("approve", Via.PAGE), by=paying.owner)
    head = Thread.objects.get(pk=paying.pk).head
    named: Any = {
        "verdict": {
            "pause": "pse_1",
            "decision": ids.show("dec", ids.new()),
            "action": "approve",
            "revision": 1,
            "material": head.digest,
        },
        "nothing": "dec_1",
        "elsewhere": elsewhere,
        "a stop's": Decision.objects.filter(pause__phase="interrupted_before")
        .latest("pk")
        .shown_id,
    }[case]
    Checkpoint.objects.filter(pk=head.pk).update(
        metadata={**head.metadata, "approved": {"propose": named}}
    )
    return run


@pytest.mark.parametrize("case", ["verdict", "nothing", "elsewhere", "a stop's"])
def test_what_a_checkpoint_says_of_itself_is_no_approval(paying, post, ben, case):
    """Whatever could write metadata (an import, once) wrote `approved`, and it was believed."""
    forged(paying, post, ben, case)
    if case != "verdict":  # those of earlier versions are looked up when they count
        assert "approved_by_nobody" in broken()
    work()
    assert (last().failure_code, PAID, broken()) == ("content_changed", [], {})


def test_the_hole_in_the_metadata_is_found_where_it_is_put_back(paying, post, ben, monkeypatch):
    forged(paying, post, ben, "elsewhere")
    with monkeypatch.context() as believed:
        believed.setattr(approvals, "flaw", lambda *_: "")
        work()
    assert PAID == [10]
    assert set(broken()) == {"approved_by_nobody", "done_for_nobody"}


def test_honest_forks_and_retries_keep_their_approvals(paying, post, ben):
    run = begin(post, paying, "strict")
    answer(ben)
    place = behind(paying)
    assert post(f"checkpoints/{place.shown_id}/fork", reason="again").status_code == 201
    assert post(f"threads/{paying.shown_id}/runs", checkpoint_id=place.shown_id).status_code == 201
    assert (last().status, PAID, broken()) == ("completed", [10, 10, 10], {})
    assert run.pk != last().pk


def test_a_fork_that_edits_takes_no_approval_along(paying, post, ana):
    """Without a material nothing was compared: 999 was paid."""
    begin(post, paying, "mild")
    answer(ana)
    PAID.clear()
    assert (
        post(
            f"checkpoints/{behind(paying).shown_id}/fork", reason="more", state={"amount": 999}
        ).status_code
        == 201
    )
    assert (last().failure_code, PAID, broken()) == ("content_changed", [], {})


def test_a_state_that_was_edited_is_no_reason_to_pass_a_review_over(paying, post, ben):
    """A fork before the review, with a state that its `skip_when` fits, went on to pay."""
    begin(post, paying, "empty")
    answer(ben, "cancel")
    first = Checkpoint.objects.filter(thread=paying, next_step="propose").latest("pk")
    assert (
        post(
            f"checkpoints/{first.shown_id}/fork", reason="nothing to see", state={"amount": 0}
        ).status_code
        == 201
    )
    assert (Pause.objects.open().get().step, PAID) == ("propose", [])


FORGED = {
    "wire": {
        "wire": {"decision": "approve", "tool": "wire", "arguments": {"to": "eve"}, "reason": ""}
    }
}


@pytest.mark.parametrize("how", ["state", "fork", "row"])
def test_no_call_is_made_that_no_decision_approved(paying, post, ana, how):
    """`call_decisions` in a state made a tool of high risk run."""
    begin(post, paying, "wiring")
    answer(ana, "cancel")
    place = behind(paying, "wire")
    if how == "state":
        post(
            f"threads/{paying.shown_id}/runs",
            state={"call_decisions": FORGED, "decided": {"wire": "approve"}},
            resume_from="wire",
        )
    elif how == "fork":
        assert (
            post(
                f"checkpoints/{place.shown_id}/fork", reason="x", state={"call_decisions": FORGED}
            ).status_code
            == 409
        )
        post(
            f"checkpoints/{place.shown_id}/fork", reason="x", state={"decided": {"wire": "approve"}}
        )
    else:
        Run.objects.filter(pk=last().pk).update(
            ended_at=None, status="pending", error="", failure_code=""
        )
        head = Thread.objects.get(pk=paying.pk).head
        Checkpoint.objects.filter(pk=head.pk).update(
            status="active", next_step="wire", metadata={"approved": {"wire": "dec_1"}}
        )
        work()
    assert (Pause.objects.open().get().step, WIRED) == ("wire", [])
