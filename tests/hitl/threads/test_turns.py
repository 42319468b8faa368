"""Turns on a thread: new input continues it by itself, and whoever says where to go on from is
obeyed to the letter.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from django.utils import timezone

from checkpoints import ids, store
from checkpoints.models import Checkpoint, Event
from hitl.decisions import services
from hitl.models import Decision, Via
from hitl.threads import messages
from runs import definitions
from runs.models import Pause, QueuedTurn, Run
from runs.services import InputInvalid
from runs.threads import turns as turns
from runs.threads.turns import NothingToResume, ThreadBusy, Turn
from tests.databases.undone import undone
from tests.worlds.steps import on_code
from tests.worlds.talking_threads import FAIL, RAN, drive, head_of, say, state_of, texts
from tests.worlds.talking_threads import give as give
from tests.worlds.talking_threads import thread as thread

pytestmark = pytest.mark.django_db


def test_one_call_with_a_thread_and_new_input_is_all_it_takes(give, thread):
    """S1-1, S1-6, S1-7, S1-25, S1-27: no list, pick, cast or position from the caller."""
    assert give(template="talk", input=say("Hello")).how == "started"
    assert RAN == ["step1", "step2", "step3"]
    assert texts(state_of(thread))[0] == "Hello"


@pytest.mark.both_databases
def test_turn_two_holds_the_messages_of_both_turns_and_runs(give, thread):
    """S1-2..5, S1-11, S1-13, S1-18, S1-23, S0-72, S0-78."""
    give(template="talk", input=say("Hello"))
    said = give(input=say("How are you?"))
    assert (said.how, said.run.definition.template_slug) == ("started", "talk")
    assert RAN == ["step1", "step2", "step3"] * 2
    assert texts(state_of(thread)) == [
        "Hello", "step1 heard 1", "step2 heard 2", "step3 heard 3", "How are you?", "step1 heard 5",
        "step2 heard 6", "step3 heard 7",
    ]  # fmt: skip
    assert Run.objects.filter(thread=thread).count() == 2


def test_an_interrupted_run_goes_on_at_the_next_step_with_nothing_given(give, thread):
    """S1-24..26, S1-10, S1-19, C9: not at step 2 again."""
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
        {
            "step_type": "execute",
            "name": "step1",
            "step_template_slug": slug,
            "interrupt_after": True,
        },
        {
            "step_type": "execute",
            "name": "step2",
            "step_template_slug": slug,
            "interrupt_before": True,
        },
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


@pytest.mark.both_databases
def test_a_failure_of_long_ago_is_not_offered(give, thread):
    """S0-77."""
    FAIL.add("step2")
    failed = give(template="talk", input=say("Hello"))
    FAIL.clear()
    Run.objects.filter(pk=failed.run.pk).update(ended_at=timezone.now() - dt.timedelta(minutes=31))
    assert give(input=say("Hello?")).offer is None
    assert "_resume_context" not in state_of(thread)


def test_after_a_completed_run_there_is_nothing_to_go_on_with(give):
    """S1-8, S1-17, S1-18: said, not run with an old state."""
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
    assert (
        give(template="talk-asking", input=say("3")).run.definition.template_slug == "talk-asking"
    )


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


def test_any_other_text_is_feedback_and_never_an_approval(give, thread):
    """C16: a message is not an approval."""
    give(template="talk-pausing", input=say("Hello"))
    for text in ("approve", "APPROVED", "Approve it", "yes", "APPROVE!"):
        RAN.clear()
        with undone():
            said = give(input={"input": text})
            assert said.decision is not None
            assert (said.decision.action, said.decision.feedback) == ("revise", text)
            assert RAN == ["step1"]
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
    """S0-74, S0-75: then the waiting run is left alone, and the message waits behind it; it was
    409, where the document has a new run begin.
    """
    give(template="talk-pausing", input=say("Hello"))
    said = give(input={"input": "APPROVE"}, auto_resume_pending=False)
    assert (said.how, said.place) == ("queued", 1)
    assert Pause.objects.open().count() == 1 and not Decision.objects.exists()
    with pytest.raises(ThreadBusy):  # what is no message does not wait
        give(auto_resume_pending=False)


def test_data_that_does_not_join_is_refused_and_the_question_stays_open(give, thread):
    """C24: a merge error is an error."""
    give(template="talk", input=say("Hello"), interrupt_after=["step2"])
    with pytest.raises(services.AnswerInvalid):
        give(input={"messages": "no list"})
    assert Pause.objects.open().count() == 1


# By hand


def test_manual_control_wins_entirely(give, thread):
    """S1-20, S1-22, C24, S1-28: nothing is loaded and nothing merged."""
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


@pytest.mark.both_databases
def test_any_checkpoint_may_be_gone_on_from(give, thread):
    """S0-80, S0-11: what came after it stays in the history."""
    give(template="talk", input=say("Hello"))
    after_one = Checkpoint.objects.get(thread=thread, node_id="step1")
    RAN.clear()
    said = give(checkpoint_id=after_one.pk, input=say("instead"))
    assert said.how == "resumed"
    assert RAN == ["step2", "step3"]
    assert texts(state_of(thread)) == [
        "Hello",
        "step1 heard 1",
        "instead",
        "step2 heard 3",
        "step3 heard 4",
    ]
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


def test_what_cannot_be_meant_is_refused_by_its_field(give, thread, subtests):
    give(template="talk", input=say("Hello"))
    cases: list[tuple[Any, ...]] = [
        ({"resume_from": "nowhere"}, "resume_from"),
        ({"interrupt_before": ["nowhere"]}, "interrupt_before"),
        ({"checkpoint_id": ids.new()}, "checkpoint_id"),
        ({"state": {}, "input": {}}, "state"),
        ({"input": {"x": float("nan")}}, "input"),
        ({"input": {}, "template": on_code()}, "template"),
    ]
    for turn, field in cases:
        with subtests.test(ascii(turn)[:60]):
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


@pytest.mark.both_databases
def test_no_second_run_begins_beside_a_live_one(give, thread, ana):
    messages.say(thread.pk, Turn(template="talk", input=say("Hello")), by=ana, via=Via.REST)
    with pytest.raises(ThreadBusy):
        give(input=say("again"))
    with pytest.raises(ThreadBusy):
        give(resume_from="step1", state={})
    assert not QueuedTurn.objects.exists()


def test_a_work_orders_thread_takes_answers_but_no_turns(paused, ana):
    """S0-74: its pause may be answered in words; a new run of it is a retry or a fork."""
    with pytest.raises(ThreadBusy):
        messages.say(paused.thread_id, Turn(input={}, resume_from="execute"), by=ana, via=Via.REST)
    said = messages.say(paused.thread_id, Turn(input={"input": "APPROVE"}), by=ana, via=Via.REST)
    assert said.how == "answered"


def test_a_stranger_sees_no_thread(give, thread, zoe):
    with pytest.raises(services.NotFound):
        give(by=zoe, template="talk", input={})


@pytest.mark.both_databases
def test_the_latest_checkpoint_costs_no_search(give, thread, django_assert_num_queries):
    """S1-15, S1-29, S1-30: the thread names it."""
    give(template="talk", input=say("Hello"))
    with django_assert_num_queries(2):
        turns.place_of(thread.pk)
