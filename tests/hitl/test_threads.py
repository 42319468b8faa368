"""Turns on a thread: new input continues it by itself, and whoever says where to go on from is obeyed to the letter."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from checkpoints import ids, store
from checkpoints.models import Checkpoint, Event, Thread
from hitl import services, threads
from hitl.models import Decision, Via
from runs import definitions
from runs import threads as turns
from runs.engine.advance import advance
from runs.models import Pause, Run
from runs.services import InputInvalid
from runs.threads import NothingToResume, ThreadBusy, Turn
from runs.workflows.base import Ask, Context, Go, Outcome, Report, State, StepFailed, step

pytestmark = pytest.mark.django_db

RAN: list[str] = []
FAIL: set[str] = set()
"""Steps that fail."""


def say(text: str, role: str = "user") -> dict[str, Any]:
    return {"messages": [{"id": str(uuid.uuid4()), "role": role, "content": text}]}


def texts(state: State) -> list[str]:
    return [message["content"] for message in state["messages"]]


@step("talk.step")
def talk(state: State, context: Context) -> Outcome:
    RAN.append(context.step)
    if context.step in FAIL:
        raise StepFailed("The line went dead.", code="dead_line")
    return Go(update={**say(f"{context.step} heard {len(state.get('messages', []))}", "assistant"), "last": context.step})


@step("talk.ask")
def ask(state: State, context: Context) -> Outcome:
    RAN.append(context.step)
    return Ask(question="Which one?", ways={"answer": "step3"}, report=Report(content="This one or that one?"), phase="asking")


@pytest.fixture
def thread(templates: None, ana, team) -> Thread:
    """A thread of Ana's for the template `talk`: three steps, messages joined by id."""
    RAN.clear()
    FAIL.clear()
    for name in ("step", "ask"):
        definitions.edit_step_template(f"talk-{name}", title="Talk", function=f"talk.{name}")
    three = [{"step_type": "execute", "name": f"step{number}", "step_template_slug": "talk-step"} for number in (1, 2, 3)]
    pausing = [{**three[0], "pause_after": True, "pause_phase": "awaiting_plan_approval"}, *three[1:]]
    asking = [three[0], {"step_type": "execute", "name": "step2", "step_template_slug": "talk-ask"}, three[2]]
    for slug, steps in {"talk": three, "talk-pausing": pausing, "talk-asking": asking}.items():
        definitions.edit_template(slug, steps=steps, title=slug, needs_repository=False, reducers={"messages": "upsert_by_id"})
    return turns.open_thread(by=ana, title="A talk", team=team)


@pytest.fixture
def give(thread, ana) -> Callable[..., threads.Said]:
    """Give the thread a turn, and let workers work."""

    def give(by=ana, auto_resume_pending: bool = True, **turn: Any) -> threads.Said:
        said = threads.say(thread.pk, Turn(**turn), by=by, via=Via.REST, auto_resume_pending=auto_resume_pending)
        drive(said.run)
        return said

    return give


def drive(run: Run) -> Run:
    while advance(run.pk, budget=60):
        pass
    run.refresh_from_db()
    return run


def head_of(thread: Thread) -> Checkpoint:
    head = Thread.objects.select_related("head").get(pk=thread.pk).head
    assert head is not None
    return head


def state_of(thread: Thread) -> State:
    return store.load(head_of(thread))


# By itself


def test_one_call_with_a_thread_and_new_input_is_all_it_takes(give, thread):
    """S1-1, S1-6, S1-7, S1-9, S1-12, S1-25, S1-27, S1-31: no list, pick, cast or position from the caller."""
    assert give(template="talk", input=say("Hello")).how == "started"
    assert RAN == ["step1", "step2", "step3"]
    assert texts(state_of(thread))[0] == "Hello"


def test_turn_two_holds_the_messages_of_both_turns_and_runs(give, thread):
    """S1-2..5, S1-11, S1-13, S1-18, S1-23, S0-72, S0-78: after a completed run the input is the next turn, with the accumulated state."""
    give(template="talk", input=say("Hello"))
    said = give(input=say("How are you?"))
    assert (said.how, said.run.definition.template_slug) == ("started", "talk")
    assert RAN == ["step1", "step2", "step3"] * 2
    assert texts(state_of(thread)) == [
        "Hello", "step1 heard 1", "step2 heard 2", "step3 heard 3", "How are you?", "step1 heard 5", "step2 heard 6", "step3 heard 7",
    ]  # fmt: skip
    assert Run.objects.filter(thread=thread).count() == 2


def test_an_interrupted_run_goes_on_at_the_next_step_with_nothing_given(give, thread):
    """S1-24, S1-25, S1-10, S1-19, C9: interrupted after step 2 it continues at step 3, not at step 2 again."""
    said = give(template="talk", input=say("Hello"), interrupt_after=["step2"])
    assert (drive(said.run).status, RAN) == ("paused", ["step1", "step2"])
    again = give()
    assert (again.how, again.run.pk) == ("answered", said.run.pk)
    assert RAN == ["step1", "step2", "step3"]
    assert drive(said.run).status == "completed"


def test_an_interrupted_run_goes_on_with_new_input_merged(give, thread):
    """S1-3, S1-24, S3-16: the new part joins by the workflow's reducers."""
    give(template="talk", input=say("Hello"), interrupt_before=["step2"])
    give(input=say("And one more thing"))
    assert texts(state_of(thread))[:3] == ["Hello", "step1 heard 1", "And one more thing"]
    assert RAN == ["step1", "step2", "step3"]


def test_a_template_may_interrupt_every_run_of_it(give, thread):
    """S1-24."""
    slug = "talk-step"
    listed = [
        {"step_type": "execute", "name": "step1", "step_template_slug": slug, "interrupt_after": True},
        {"step_type": "execute", "name": "step2", "step_template_slug": slug, "interrupt_before": True},
    ]
    definitions.edit_template("talk", steps=listed)
    give(template="talk", input=say("Hello"))
    assert Pause.objects.open().get().phase == "interrupted_after"
    give()
    assert Pause.objects.open().get().phase == "interrupted_before"
    assert RAN == ["step1"]
    give()
    assert RAN == ["step1", "step2"]


def test_without_a_reducer_a_key_is_replaced_and_the_others_stay(give, thread):
    """S1-14, C10: the default merges key by key; it does not throw the state away."""
    give(template="talk", input={"colour": "red", "size": 1})
    give(input={"colour": "blue"})
    state = state_of(thread)
    assert (state["colour"], state["size"]) == ("blue", 1)


def test_a_failed_run_goes_on_where_it_failed_when_nothing_new_is_said(give, thread):
    """S1-4, S1-5, S0-71: and what was done is not done again (P5)."""
    FAIL.add("step2")
    failed = give(template="talk", input=say("Hello"))
    FAIL.clear()
    said = give()
    assert (said.how, said.run.retry_of_id) == ("resumed", failed.run.pk)
    assert RAN == ["step1", "step2", "step2", "step3"]


def test_new_input_after_a_failure_begins_a_run_and_offers_to_resume(give, thread):
    """S0-77, S0-76: up to 30 minutes later; the steps are told, and so is the caller."""
    FAIL.add("step2")
    failed = give(template="talk", input=say("Hello"))
    at = head_of(thread)
    FAIL.clear()
    said = give(input=say("Are you there?"))
    assert said.how == "started"
    assert said.offer is not None
    assert (said.offer["run_id"], said.offer["checkpoint_id"]) == (failed.run.shown_id, at.shown_id)
    state = state_of(thread)
    assert state["_resume_context"]["checkpoint_id"] == at.shown_id
    assert set(state["_resume_context"]) == {"checkpoint_id", "failed_at"}
    assert texts(state)[:3] == ["Hello", "step1 heard 1", "Are you there?"]  # the thread's memory
    give(input=say("Good"))
    assert "_resume_context" not in state_of(thread)


def test_a_failure_of_long_ago_is_not_offered(give, thread):
    """S0-77."""
    FAIL.add("step2")
    failed = give(template="talk", input=say("Hello"))
    FAIL.clear()
    Run.objects.filter(pk=failed.run.pk).update(ended_at=timezone.now() - dt.timedelta(minutes=31))
    assert give(input=say("Hello?")).offer is None
    assert "_resume_context" not in state_of(thread)


def test_after_a_completed_run_there_is_nothing_to_go_on_with(give):
    """S1-8, S1-17, S1-18: nothing given and nothing that follows: said, not run with an old state."""
    give(template="talk", input=say("Hello"))
    with pytest.raises(NothingToResume):
        give()


def test_a_first_turn_needs_to_know_its_template(give):
    with pytest.raises(InputInvalid):
        give(input=say("Hello"))


def test_a_later_turn_may_change_the_template_and_takes_its_current_version(give, thread):
    give(template="talk", input=say("Hello"))
    definitions.edit_template("talk", description="A new version")
    assert give(input=say("2")).run.definition.template_version == 2
    assert give(template="talk-asking", input=say("3")).run.definition.template_slug == "talk-asking"


def test_the_code_of_the_last_turn_comes_along_but_not_its_loops_and_answers(give, thread, ana):
    give(template="talk-pausing", input=say("Hello"))
    give(input={"input": "APPROVE"})
    assert state_of(thread)["decided"] == {"step1": "approve"}
    give(input=say("next"))
    pause = Pause.objects.open().get()
    assert store.load(pause.checkpoint)["decided"] == {}
    assert pause.checkpoint.loop_num == 1


# What a message on a waiting thread means


def test_the_word_approve_approves(give, thread):
    """S0-47, S0-74, S0-75, C7, C16: exactly the word; the response says what it was taken for."""
    first = give(template="talk-pausing", input=say("Hello"))
    said = give(input={"input": "APPROVE"})
    assert (said.how, said.run.pk) == ("answered", first.run.pk)
    assert said.decision is not None
    assert said.decision.action == "approve"
    assert RAN == ["step1", "step2", "step3"]


def test_the_word_reject_cancels(give, thread):
    """C7."""
    first = give(template="talk-pausing", input=say("Hello"))
    said = give(input={"content": "REJECT"})
    assert said.decision is not None
    assert (said.decision.action, drive(first.run).status) == ("cancel", "cancelled")


@pytest.mark.parametrize("text", ["approve", "APPROVED", "Approve it", "yes", "APPROVE!"])
def test_any_other_text_is_feedback_and_never_an_approval(give, thread, text):
    """C16: a message is not an approval."""
    give(template="talk-pausing", input=say("Hello"))
    said = give(input={"input": text})
    assert said.decision is not None
    assert (said.decision.action, said.decision.feedback) == ("revise", text)
    assert RAN == ["step1", "step1"]
    assert Pause.objects.open().get().revision == 2


def test_text_answers_a_question_that_wants_an_answer(give, thread):
    """C16, S2-24: and the steps that follow have it in their state."""
    give(template="talk-asking", input=say("Hello"))
    said = give(input={"input": "the red one"})
    assert said.decision is not None
    assert (said.decision.action, said.decision.feedback) == ("answer", "the red one")
    assert state_of(thread)["input"] == "the red one"
    assert RAN == ["step1", "step2", "step3"]


def test_nothing_said_on_a_waiting_thread_asks_again(give, thread):
    """S0-73, S2-22: the prompt is told once more, and nothing is decided."""
    give(template="talk-pausing", input=say("Hello"))
    said = give()
    assert said.how == "asked"
    assert not Decision.objects.exists()
    told = Event.objects.filter(thread=thread, kind="approval_requested").order_by("seq")
    assert [event.data.get("again", False) for event in told] == [False, True]
    assert told[0].data["pause_id"] == told[1].data["pause_id"]


def test_auto_resume_may_be_switched_off(give, thread):
    """S0-74: then the waiting run is left alone, and no other begins beside it."""
    give(template="talk-pausing", input=say("Hello"))
    with pytest.raises(ThreadBusy):
        give(input={"input": "APPROVE"}, auto_resume_pending=False)
    assert Pause.objects.open().count() == 1


def test_data_that_does_not_join_is_refused_and_the_question_stays_open(give, thread):
    """C24: a merge error is an error."""
    give(template="talk", input=say("Hello"), interrupt_after=["step2"])
    with pytest.raises(services.AnswerInvalid):
        give(input={"messages": "no list"})
    assert Pause.objects.open().count() == 1


# By hand


def test_manual_control_wins_entirely(give, thread):
    """S1-20, S1-22, C24, S1-28: with a step and a state of one's own nothing is loaded and nothing merged."""
    give(template="talk", input=say("Hello"))
    RAN.clear()
    give(resume_from="step3", input=say("only this"))
    assert RAN == ["step3"]
    assert texts(state_of(thread)) == ["only this", "step3 heard 1"]


def test_a_state_that_is_passed_replaces_the_threads(give, thread):
    """S1-21, S1-28."""
    give(template="talk", input={**say("Hello"), "colour": "red"})
    give(state=say("fresh"), resume_from="step1")
    assert texts(state_of(thread))[0] == "fresh"
    assert "colour" not in state_of(thread)


def test_a_step_alone_goes_on_there_with_the_latest_state(give, thread):
    """S1-20."""
    give(template="talk", input=say("Hello"))
    RAN.clear()
    give(resume_from="step2")
    assert RAN == ["step2", "step3"]
    assert texts(state_of(thread))[0] == "Hello"


def test_any_checkpoint_may_be_gone_on_from(give, thread):
    """S0-80, S0-11: its own next step follows, its own state is loaded, and what came after it stays in the history."""
    give(template="talk", input=say("Hello"))
    after_one = Checkpoint.objects.get(thread=thread, node_id="step1")
    RAN.clear()
    said = give(checkpoint_id=after_one.pk, input=say("instead"))
    assert said.how == "resumed"
    assert RAN == ["step2", "step3"]
    assert texts(state_of(thread)) == ["Hello", "step1 heard 1", "instead", "step2 heard 3", "step3 heard 4"]
    assert Checkpoint.objects.filter(thread=thread, parent=after_one).count() == 2


def test_a_checkpoint_and_a_step_go_together(give, thread):
    give(template="talk", input=say("Hello"))
    after_one = Checkpoint.objects.get(thread=thread, node_id="step1")
    RAN.clear()
    give(checkpoint_id=after_one.pk, resume_from="step3")
    assert RAN == ["step3"]


def test_the_end_of_a_run_is_no_place_to_go_on_from(give, thread):
    """S1-18."""
    give(template="talk", input=say("Hello"))
    with pytest.raises(NothingToResume):
        give(checkpoint_id=head_of(thread).pk)


@pytest.mark.parametrize(
    ("turn", "field"),
    [
        ({"resume_from": "nowhere"}, "resume_from"),
        ({"interrupt_before": ["nowhere"]}, "interrupt_before"),
        ({"checkpoint_id": ids.new()}, "checkpoint_id"),
        ({"state": {}, "input": {}}, "state"),
        ({"input": {"x": float("nan")}}, "input"),
        ({"input": {}, "template": "repo-tidy"}, "template"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_field(give, thread, turn, field):
    give(template="talk", input=say("Hello"))
    with pytest.raises(InputInvalid) as refused:
        give(**turn)
    assert list(refused.value.errors) == [field]
    assert Run.objects.filter(thread=thread).count() == 1


def test_a_checkpoint_of_another_thread_is_refused(give, thread, ana):
    other = turns.open_thread(by=ana)
    drive(turns.invoke(other.pk, Turn(template="talk", input=say("secret")), by=ana))
    give(template="talk", input=say("Hello"))
    with pytest.raises(InputInvalid):
        give(checkpoint_id=Checkpoint.objects.filter(thread=other).earliest("id").pk)


def test_a_state_that_cannot_be_read_is_an_error_and_no_fresh_start(give, thread):
    """C24, S1-8, S1-17."""
    give(template="talk", input=say("Hello"))
    Checkpoint.objects.filter(thread=thread).update(digest="0" * 64)
    with pytest.raises(store.CheckpointDamaged):
        give(input=say("Hello again"))
    assert Run.objects.filter(thread=thread).count() == 1


def test_no_second_run_begins_beside_a_live_one(give, thread, ana):
    threads.say(thread.pk, Turn(template="talk", input=say("Hello")), by=ana, via=Via.REST)
    with pytest.raises(ThreadBusy):
        give(input=say("again"))
    with pytest.raises(ThreadBusy):
        give(resume_from="step1", state={})


def test_a_work_orders_thread_takes_answers_but_no_turns(paused, ana):
    """S0-74: its pause may be answered in words; a new run of it is a retry or a fork."""
    with pytest.raises(ThreadBusy):
        threads.say(paused.thread_id, Turn(input={}, resume_from="execute"), by=ana, via=Via.REST)
    said = threads.say(paused.thread_id, Turn(input={"input": "APPROVE"}), by=ana, via=Via.REST)
    assert said.how == "answered"


def test_a_stranger_sees_no_thread(give, thread, zoe):
    with pytest.raises(services.NotFound):
        give(by=zoe, template="talk", input={})


def test_the_latest_checkpoint_costs_no_search(give, thread, django_assert_num_queries):
    """S1-15, S1-16, S1-29, S1-30: the thread names it."""
    give(template="talk", input=say("Hello"))
    with django_assert_num_queries(2):
        turns.place_of(thread.pk)


# Over REST


@pytest.fixture
def call(api, ana, thread):
    def call(method: str, path: str, body: Any = None, *, by=ana, status: int = 200) -> Any:
        response = getattr(api(by), method)(f"/api/v1/{path}", body, format="json")
        assert response.status_code == status, response.content
        for run in Run.objects.filter(status="pending"):
            drive(run)
        return response.json() if response.content else None

    return call


def test_a_conversation_over_rest(call):
    """S0-7, S0-40, S0-53, S0-57, S0-58, S1-27."""
    made = call("post", "threads", {"title": "Support"}, status=201)
    path = f"threads/{made['id']}"
    said = call("post", f"{path}/runs", {"template": "talk-pausing", "input": "Hello"}, status=201)
    assert (said["how"], said["run"]["status"], said["decision"]) == ("started", "pending", None)
    [waiting] = call("get", "runs?status=pending_input")["results"]
    assert (waiting["id"], waiting["thread_id"], waiting["pending_input"]["prompt"]) == (
        said["run"]["id"], made["id"], "Waiting for Plan Approval",
    )  # fmt: skip
    assert waiting["pending_input"]["checkpoint_id"] == call("get", path)["head"]
    said = call("post", f"{path}/runs?auto_resume_pending=true", {"input": "APPROVE"}, status=201)
    assert (said["how"], said["decision"]) == ("answered", "approve")
    run = call("get", f"runs/{said['run']['id']}")
    assert (run["status"], run["pending_input"], run["work_order_id"]) == ("completed", None, None)
    state = call("get", f"{path}/state")
    assert (state["values"]["last"], state["next_step"]) == ("step3", "")
    history = call("get", f"{path}/history")["results"]
    assert [one["node_id"] for one in history] == ["step3", "step2", "step1", "step1", ""]
    assert call("get", f"runs/{run['id']}/checkpoints")["results"] == history
    events = call("get", f"{path}/events?after=2")
    assert [event["seq"] for event in events] == list(range(3, 3 + len(events)))
    assert call("get", f"checkpoints/{history[0]['id']}")["state"]["last"] == "step3"


def test_a_run_is_answered_resumed_and_cancelled_over_rest(call, thread):
    """S0-10, S0-11, S0-42, S0-73."""
    path = f"threads/{thread.shown_id}/runs"
    run = call("post", path, {"template": "talk-pausing", "input": {}}, status=201)["run"]["id"]
    assert call("post", f"runs/{run}/resume", {})["how"] == "asked"
    said = call("post", f"runs/{run}/input", {"content": "shorter"}, status=201)
    assert (said["decision"], said["run"]["id"]) == ("revise", run)
    assert call("post", f"runs/{run}/cancel")["status"] == "cancelled"
    assert call("post", f"runs/{run}/cancel", status=409)["code"] == "run_ended"
    assert call("post", f"runs/{run}/input", {"content": "x"}, status=409)["code"] == "pause_closed"
    assert call("post", f"runs/{run}/resume", {}, status=409)["code"] == "nothing_to_resume"
    first = Checkpoint.objects.filter(thread=thread).earliest("created_at").shown_id
    said = call("post", f"runs/{run}/resume", {"checkpoint_id": first})
    assert said["how"] == "resumed"
    assert said["run"]["id"] != run


def test_a_run_and_its_child_runs_are_suspended_over_rest(api, thread, ana):
    """Issue 3, 5: each at its own next boundary."""
    run = turns.invoke(thread.pk, Turn(template="talk", input={}), by=ana)
    own = Thread.objects.create(owner=ana)
    Run.objects.create(thread=own, definition=run.definition, parent=run, child_name="kid", depth=1, due_at=run.due_at)
    address = f"/api/v1/runs/{run.shown_id}/suspend"
    assert api(ana).post(address).json()["id"] == run.shown_id
    assert set(Run.objects.values_list("suspend_by", flat=True)) == {"Ana Ruiz"}
    Run.objects.update(status="cancelled", ended_at=run.due_at)
    late = api(ana).post(address)
    assert (late.status_code, late.json()["code"]) == (409, "run_ended")


def test_a_failed_run_is_resumed_over_rest_as_the_run_to_follow(call, thread):
    """S0-42."""
    FAIL.add("step2")
    run = call("post", f"threads/{thread.shown_id}/runs", {"template": "talk", "input": {}}, status=201)["run"]["id"]
    FAIL.clear()
    said = call("post", f"runs/{run}/resume", {})
    assert (said["how"], said["run"]["retry_of"]) == ("resumed", run)
    assert call("get", f"runs/{said['run']['id']}")["status"] == "completed"


def test_a_checkpoint_of_a_thread_is_forked_over_rest(call, thread):
    call("post", f"threads/{thread.shown_id}/runs", {"template": "talk", "input": {}}, status=201)
    after_one = Checkpoint.objects.get(thread=thread, node_id="step1")
    run = call("post", f"checkpoints/{after_one.shown_id}/fork", {"reason": "try again", "state": {"x": 1}}, status=201)
    assert run["thread_id"] == thread.shown_id
    assert call("get", f"runs/{run['id']}")["status"] == "completed"
    assert state_of(thread)["x"] == 1


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("post", "threads/{t}/runs", {"template": "talk", "input": [1]}, 400, "invalid"),
        ("post", "threads/{t}/runs", {"template": "talk", "input": {"x": "\x00"}}, 400, "invalid"),
        ("post", "threads/{t}/runs", {"template": "nothing", "input": {}}, 404, "template_not_found"),
        ("post", "threads/{t}/runs", {"input": {}}, 422, "input_invalid"),
        ("post", "threads/{t}/runs", {"template": "talk", "input": {"messages": 3}}, 422, "merge_failed"),
        ("post", "threads/{t}/runs", {"checkpoint_id": "ckpt_x"}, 400, "invalid"),
        ("post", "threads/{t}/runs?auto_resume_pending=perhaps", {"template": "talk"}, 400, "invalid"),
        ("post", "threads", {"title": "x" * 201}, 400, "invalid"),
        ("post", "threads", {"team": "nobody's"}, 400, "invalid"),
        ("get", "threads/{t}/state", None, 404, "not_found"),
        ("get", "threads/{t}/events?after=-1", None, 400, "invalid"),
        ("get", "threads/{t}/events?limit=99999", None, 400, "invalid"),
        ("get", "threads/thr_00000000000000000000000000", None, 404, "not_found"),
        ("get", "runs?status=odd", None, 400, "invalid"),
        ("get", "runs?thread=odd", None, 400, "invalid"),
        ("get", "runs/run_00000000000000000000000000", None, 404, "not_found"),
        ("post", "runs/run_00000000000000000000000000/resume", {}, 404, "not_found"),
        ("get", "checkpoints/ckpt_00000000000000000000000000", None, 404, "not_found"),
    ],
)
def test_nonsense_is_a_clear_refusal(call, thread, method, path, body, status, code):
    assert call(method, path.format(t=thread.shown_id), body, status=status)["code"] == code
    assert not Run.objects.exists()


def test_strangers_find_nothing_over_rest(call, thread, zoe):
    call("post", f"threads/{thread.shown_id}/runs", {"template": "talk-pausing", "input": {}}, status=201)
    run, head = Run.objects.get(), head_of(thread)
    assert call("get", "threads", by=zoe)["results"] == []
    assert call("get", "runs", by=zoe)["results"] == []
    for method, path in [
        ("get", f"threads/{thread.shown_id}"), ("get", f"threads/{thread.shown_id}/state"), ("get", f"threads/{thread.shown_id}/history"),
        ("get", f"threads/{thread.shown_id}/events"), ("get", f"threads/{thread.shown_id}/runs"),
        ("post", f"threads/{thread.shown_id}/runs"), ("get", f"runs/{run.shown_id}"), ("get", f"runs/{run.shown_id}/checkpoints"),
        ("post", f"runs/{run.shown_id}/resume"), ("post", f"runs/{run.shown_id}/cancel"), ("get", f"checkpoints/{head.shown_id}"),
    ]:  # fmt: skip
        assert call(method, path, {} if method == "post" else None, by=zoe, status=404)["code"] == "not_found"
    assert call("post", f"runs/{run.shown_id}/input", {"content": "APPROVE"}, by=zoe, status=404)["code"] == "not_found"
    assert not Decision.objects.exists()
