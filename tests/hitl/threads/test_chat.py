"""A thread's conversation: as the state holds it, as the page shows it, as machines read it, and
said again in other words.
"""

from __future__ import annotations

import re

import pytest
from django.utils import timezone

from checkpoints.events import log
from checkpoints.models import Checkpoint, Event, EventKind, Thread, WhenBusy
from hitl.models import Via
from hitl.threads import messages as threads
from runs import definitions, retention
from runs.models import QueuedTurn, Run
from runs.services import InputInvalid
from runs.threads import conversation, message_queue
from runs.threads import turns as turns
from runs.threads.turns import Turn
from runs.workflows.base import Ask, Context, Done, Go, Outcome, Report, State
from runs.workflows.registry import step
from tests.databases.whole import file_database as file_database
from tests.doors.thread_page import url
from tests.hitl.views.order_pages import ATTACKS, dangerous, text
from tests.worlds.talking_threads import drive, state_of

pytestmark = pytest.mark.django_db

CALL = {
    "id": "c1",
    "tool": "search",
    "arguments": {"query": "<b>AI</b>"},
    "result": "Found 5",
    "status": "done",
    "ms": 1_200,
}


@step("chat.loop")
def loop(state: State, context: Context) -> Outcome:
    """What an agent writes, without a model: it calls a tool in each of its loops, asks in loop 2,
    and answers in loop 3.
    """
    said = {"run_id": context.run_id, "loop": context.loop_num, "at": "2026-01-01T00:00:00Z"}
    told = {
        **said,
        "id": f"msg_{context.key}",
        "role": "assistant",
        "content": f"Loop **{context.loop_num}** of {state['input']}",
        "tools": [CALL],
    }
    user = {
        **said,
        "id": f"msg_{context.key}/user",
        "role": "user",
        "content": state["input"],
        "tools": [],
    }
    update = {"messages": [*([user] if context.loop_num == 1 else []), told]}
    if context.loop_num == 2:
        return Ask(
            question="Should I include market data?",
            answers={"approve": "agent"},
            report=Report(content="?"),
            phase="asking",
            update=update,
        )
    return Go(update=update, to="agent") if context.loop_num < 3 else Done(update=update)


@pytest.fixture
def thread(templates, ana, team):
    definitions.edit_step_template(
        "chat-loop", title="Agent", function="chat.loop", config={"max_loops": 5}
    )
    steps = [{"step_type": "execute", "name": "agent", "step_template_slug": "chat-loop"}]
    definitions.edit_template(
        "chat",
        steps=steps,
        title="Chat",
        needs_repository=False,
        reducers={"messages": "upsert_by_id"},
    )
    return turns.open_thread(by=ana, title="A chat", team=team)


@pytest.fixture
def talk(thread, ana):
    """`talk("Hello")`: a whole turn, its question approved."""

    def talk(words, **more):
        run = threads.say(
            thread.pk, Turn(template="chat", input={"input": words}, **more), by=ana, via=Via.REST
        ).run
        drive(run)
        threads.say(thread.pk, Turn(input={"input": "APPROVE"}), by=ana, via=Via.REST)
        return drive(run)

    return talk


def contents(thread):
    return [message.content for message in conversation.of(state_of(thread))]


def work(run, *facts):
    """As a step at work that has said this."""
    told = {"step": "agent", "loop_num": 1}
    log.append(
        run.thread_id,
        run.pk,
        [(kind, {**told, **data}) for kind, data in [(EventKind.STEP_STARTED, {}), *facts]],
    )
    now = timezone.now()
    Run.objects.filter(pk=run.pk).update(
        status="running", epoch=1, lease_owner="x", lease_until=now, started_at=now
    )


# The page


def test_the_page_shows_bubbles_with_markdown_and_their_tool_cards(page, thread, talk):
    """S0-35, S0-46: collapsed, with arguments, result, status and duration."""
    talk("trends")
    shown = text(page.get(url(thread)))
    assert "<strong>2</strong> of trends" in shown
    card = shown.split('data-call="c1"')[1].split("</details>")[0]
    assert (
        "&lt;b&gt;AI&lt;/b&gt;" in card and "Found 5" in card and "Done" in card and "1.2 s" in card
    )
    assert '<details class="tool" data-fold="call-c1" data-call="c1">' in shown


def test_while_a_run_works_the_page_says_processing_and_takes_no_input(page, thread, ana):
    """S0-44, 49, 50..52: what streams is there at once, as text."""
    run = threads.say(
        thread.pk, Turn(template="chat", input={"input": "trends"}), by=ana, via=Via.REST
    ).run
    started = {"id": "c9", "tool": "search", "arguments": {"q": 1}}
    work(
        run,
        (EventKind.STREAMING_CHUNK, {"content": "Let me **sea"}),
        (EventKind.TOOL_CALL_STARTED, started),
        (EventKind.STREAMING_CHUNK, {"content": "rch</div>"}),
    )
    shown = text(page.get(url(thread)))
    assert re.search(r"Processing\.\.\.\s+<span>\(Loop 1\)</span>", shown)
    assert "Let me **search&lt;/div&gt;" in shown
    assert "Running" in shown.split('data-call="c9"')[1].split("</details>")[0]
    assert "Loop 1 of 5" in shown
    assert '<li class="loop-segment current">' in shown
    assert "Stop</button>" in shown
    assert re.search(r"<textarea[^>]* disabled", shown)
    assert ">trends</p>" in shown, "what the person said is there before the run's messages hold it"
    assert page.post(url(thread, "cancel")).status_code == 302
    run.refresh_from_db()
    assert run.status == "cancelled"


def test_a_question_is_in_the_flow_with_its_banner_and_the_loops_before_it(page, thread, ana):
    """S0-45, 47, 48, 50, 51: the banner is for who arrives."""
    run = drive(
        threads.say(
            thread.pk, Turn(template="chat", input={"input": "trends"}), by=ana, via=Via.REST
        ).run
    )
    shown = text(page.get(url(thread)))
    assert "Waiting for your input" in shown
    assert "Your previous session is waiting for input." in shown and "Resume Conversation" in shown
    assert "Loop 2 of 5" in shown
    marked = Checkpoint.objects.get(run_id=run.pk, node_id="agent", loop_num=1)
    assert (
        '<li class="loop-segment completed has-checkpoint">' in shown
        and f"/checkpoints/{marked.shown_id}/" in shown
    )
    assert '<li class="loop-segment current has-checkpoint">' in shown
    assert (
        shown.index("Loop <strong>2</strong>")
        < shown.index("⏸️ Should I include market data?")
        < shown.index("Answer in words")
    )
    assert "Resume Conversation" not in text(page.get(url(thread), {"live": ""}))
    resumed = page.post(url(thread, "resume"))
    assert "Resume Conversation" not in text(page.get(resumed["Location"]))
    assert Event.objects.filter(run_id=run.pk, kind=EventKind.APPROVAL_REQUESTED).count() == 2, (
        "S0-73"
    )


def test_what_it_cost_is_shown_by_loop_run_and_thread_with_what_is_left(page, thread, talk):
    run = talk("trends")
    spent = {"input_tokens": 1_000, "output_tokens": 200, "cost": 0.01}
    told = {
        "what": "usage",
        "message": "",
        "level": "info",
        **spent,
        "loop": 1,
        "run": spent,
        "thread": {**spent, "input_tokens": 5_000},
    }
    log.append(
        thread.pk,
        run.pk,
        [(EventKind.LOG, {**told, "left": {"total_tokens": 800, "cost": 0.04, "tool_calls": 3}})],
    )
    shown = re.sub(r">\s+<", "><", text(page.get(url(thread))))
    assert "<dt>Loop 1</dt><dd>1,200 tokens, 0.0100 USD</dd>" in shown
    assert "<dt>This thread</dt><dd>5,200 tokens, 0.0100 USD</dd>" in shown
    assert "left: 800 tokens, 0.0400 USD, 3 tool calls" in shown


@pytest.mark.parametrize(
    "odd",
    [
        {"arguments": ATTACKS[0], "tool": ATTACKS[1], "result": ATTACKS[0], "status": ATTACKS[1]},
        {"tool": 3},
        4,
        {"tool": "x", "ms": "y"},
    ],
)
def test_calls_of_any_shape_break_nothing_and_run_nothing(page, thread, ana, odd):
    messages = [
        {
            "id": ATTACKS[0],
            "role": "user",
            "content": ATTACKS[0],
            "run_id": "run_x",
            "tools": [odd],
            "loop": "x",
            "at": 3,
        },
        {"id": "y", "tools": "x"},
    ]
    drive(
        turns.invoke(
            thread.pk, Turn(template="chat", input={"input": "x", "messages": messages}), by=ana
        )
    )
    assert dangerous(text(page.get(url(thread)))) == []


# Said again in other words


def test_an_earlier_message_is_edited_from_before_it_and_the_old_branch_stays(thread, talk, ana):
    """S0-80: what came before is kept, what came after stays in the history; loops begin anew."""
    talk("one")
    second = talk("two")
    message = next(one for one in conversation.of(state_of(thread)) if one.content == "two")
    run = talk("three", replaces=message.id)
    assert [one for one in contents(thread) if one in {"one", "two", "three"}] == ["one", "three"]
    assert (run.status, run.forked_from.run_id) == (
        "completed",
        Run.objects.order_by("pk").first().pk,
    )
    assert Checkpoint.objects.filter(run_id=second.pk, status="completed").exists(), (
        "the old branch"
    )
    assert contents(thread)[-1] == "Loop **3** of three"


def test_the_first_message_is_edited_into_a_new_beginning(thread, talk):
    talk("one")
    message = conversation.of(state_of(thread))[0]
    talk("other", replaces=message.id)
    assert contents(thread)[0] == "other" and "one" not in contents(thread)


def test_a_message_that_began_a_run_which_was_retried_is_edited_from_before_the_first_try(
    thread, ana, talk
):
    talk("one")
    run = drive(threads.say(thread.pk, Turn(input={"input": "two"}), by=ana, via=Via.REST).run)
    threads.cancel(run.pk, by=ana, via=Via.REST)
    message = next(one for one in conversation.of(state_of(thread)) if one.content == "two")
    found = conversation.before(
        thread.pk, Thread.objects.select_related("head").get(pk=thread.pk).head, message.id
    )
    assert found is not None and found.run_id == Run.objects.order_by("pk").first().pk


@pytest.mark.parametrize("which", ["nothing", "assistant"])
def test_only_messages_that_began_a_turn_can_be_edited(thread, talk, ana, which):
    talk("one")
    replaced = "msg_x" if which == "nothing" else conversation.of(state_of(thread))[1].id
    with pytest.raises(InputInvalid, match="began a turn"):
        threads.say(thread.pk, Turn(input={"input": "x"}, replaces=replaced), by=ana, via=Via.REST)


def test_editing_is_on_the_page_for_who_takes_part_and_only_between_runs(
    page, thread, talk, ana, zoe, client
):
    talk("one")
    shown = text(page.get(url(thread)))
    [message_id] = re.findall(r'name="message" value="([^"]+)"', shown)
    assert page.post(url(thread, "edit"), {"message": message_id, "text": " "}).status_code == 422
    client.force_login(zoe)
    assert client.post(url(thread, "edit"), {"message": message_id, "text": "x"}).status_code == 404
    assert (
        page.post(url(thread, "edit"), {"message": message_id, "text": "other"}).status_code == 302
    )
    assert 'name="message" value' not in text(page.get(url(thread)))
    busy = page.post(url(thread, "edit"), {"message": message_id, "text": "in <other> words"})
    assert busy.status_code == 409
    # before: what was typed was gone
    assert "in &lt;other&gt; words" in text(busy)
    long = page.post(url(thread, "edit"), {"message": message_id, "text": "long " * 5_000})
    assert long.status_code == 422 and "long long" in text(long)
    assert "Run" in text(busy) and Run.objects.count() == 2


# The line, on the page


def test_the_page_shows_what_waits_and_a_way_to_withdraw_it(page, thread, ana):
    page.post(url(thread, "busy"), {"when_busy": "queue"})
    assert page.post(url(thread, "busy"), {"when_busy": "never"}).status_code == 422
    page.post(url(thread, "say"), {"text": "one", "template": "chat"})
    assert "at place 1" in text(page.post(url(thread, "say"), {"text": "two"}, follow=True))
    shown = text(page.get(url(thread)))
    assert "Send next" in shown and not re.search(r"<textarea[^>]* disabled", shown)
    row = QueuedTurn.objects.get()
    page.post(url(thread, f"queue/{row.shown_id}/withdraw"))
    assert page.post(url(thread, f"queue/{row.shown_id}/withdraw")).status_code == 409
    assert "Waiting for its turn" not in text(page.get(url(thread)))
    assert message_queue.place_of(row) == 0
    assert Thread.objects.get(pk=thread.pk).when_busy == WhenBusy.QUEUE


# For machines


def test_messages_are_read_in_pages_with_their_calls(api, thread, talk, ana, zoe):
    talk("one")
    client = api(ana)
    path = f"/api/v1/threads/{thread.shown_id}/messages"
    first = client.get(path, {"limit": 3}).json()
    assert [one["role"] for one in first["results"]] == ["user", "assistant", "assistant"]
    assert first["results"][1]["tools"] == [{**CALL, "was": None}]
    rest = client.get(first["next"]).json()
    assert [one["content"] for one in rest["results"]] == ["Loop **3** of one"] and rest[
        "next"
    ] is None
    assert client.get(path, {"after": "nothing"}).status_code == 422
    assert api(zoe).get(path).status_code == 404


def test_an_earlier_message_is_edited_over_rest(api, thread, talk, ana):
    talk("one")
    message = conversation.of(state_of(thread))[0]
    path = f"/api/v1/threads/{thread.shown_id}/runs"
    client = api(ana)
    refused = client.post(path, {"input": "x", "replaces": "msg_x"}, format="json")
    assert (refused.status_code, list(refused.json()["errors"])) == (422, ["replaces"])
    begun = client.post(path, {"input": "other", "replaces": message.id}, format="json")
    assert (begun.status_code, begun.json()["how"]) == (201, "started")


# Folding


def fold():
    return retention.prune(now=timezone.now())


def stream(run, *, done=True):
    """Six events of a run: a step that says three things."""
    about = {"step": "agent", "loop_num": 1}
    kinds = [
        EventKind.STEP_STARTED,
        *[EventKind.STREAMING_CHUNK] * 3,
        EventKind.STEP_COMPLETED if done else EventKind.LOG,
    ]
    return [
        event.seq
        for event in log.append(
            run.thread_id, run.pk, [(kind, {**about, "content": "x"}) for kind in kinds]
        )
    ]


@pytest.fixture
def old(settings):
    """Streamed text is kept for no time."""
    settings.WAYSTATION_KEEP_CHUNK_HOURS = 1e-9


def test_streamed_text_is_folded_once_its_steps_result_is_kept(thread, talk, old):
    """S0-19: every reader of the log is told which numbers went."""
    run = talk("one")
    first = stream(run)
    stream(run)
    before = [one["seq"] for one in log.told_after(thread.pk, 0)]
    assert fold().rows["chunks_folded"] == 6
    told = log.told_after(thread.pk, 0)
    lines = [one for one in told if "folded_to" in one["data"]]
    assert [(line["data"]["folded_from"], line["data"]["folded_to"],
        line["seq"]) for line in lines] == [
        (first[1], first[3], first[3]), (first[1] + 5, first[3] + 5, first[3] + 5),
    ]  # fmt: skip
    covered = {
        seq
        for one in told
        for seq in range(one["data"].get("folded_from", one["seq"]), one["seq"] + 1)
    }
    assert covered == set(before)
    assert log.told_after(thread.pk, first[2])[0]["seq"] == first[3], (
        "who came so far is told of the rest"
    )
    assert fold().rows["chunks_folded"] == 0
    kept = Thread.objects.get(pk=thread.pk)
    assert (
        kept.last_seq - kept.first_seq + 1 - kept.folded
        == Event.objects.filter(thread=thread).count()
    )


def test_text_of_a_live_run_and_of_a_step_without_a_result_is_not_folded(thread, talk, ana, old):
    ended = talk("one")
    stream(ended, done=False)
    live = threads.say(thread.pk, Turn(input={"input": "two"}), by=ana, via=Via.REST).run
    stream(live)
    assert fold().rows["chunks_folded"] == 0


def test_dropping_the_logs_beginning_takes_what_was_folded_out_of_the_count(
    thread, talk, old, settings
):
    run = talk("one")
    stream(run)
    fold()
    settings.WAYSTATION_KEEP_DAYS = 1e-9
    fold()
    kept = Thread.objects.get(pk=thread.pk)
    assert (kept.first_seq, kept.folded) == (kept.last_seq, 0)


# With the shipped agent


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("file_database")  # what streams is written by a thread of its own
def test_the_shipped_agent_talks_on_the_page_and_is_labelled_as_scripted(page, thread, ana):
    """Its messages, its loops and what they cost are what this page shows."""
    page.post(url(thread, "say"), {"text": "calculate 6 * 7 and ask me", "template": "chat-agent"})
    run = drive(Run.objects.get())
    shown = text(page.get(url(thread)))
    assert run.status == "paused"
    assert "The scripted model answers here" in shown and "<dt>Model</dt><dd>scripted</dd>" in shown
    assert "Loop 1 of 15" in shown and "calculate 6 * 7 and ask me" in shown
    assert "Waiting for a person" in shown
    page.post(url(thread, "say"), {"text": "Yes, include market data"})
    drive(run)
    shown = text(page.get(url(thread)))
    assert "42" in shown and "Based on what the tools said" in shown
    assert "Loop 2 of 15" in shown and "This thread" in shown and "left:" in shown
