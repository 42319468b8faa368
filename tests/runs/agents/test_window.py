"""What of a long conversation a model is given: decided by rule, said openly, and kept whole all
the same.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given as examples
from hypothesis import strategies as st

from checkpoints import store
from checkpoints.models import Checkpoint
from hitl.models import Via
from hitl.threads import messages as doors
from runs.agents import config, window
from runs.threads import turns as threads
from runs.workflows.base import ConfigInvalid
from tests.databases.whole import file_database as file_database
from tests.killed import moments as crash
from tests.servers.model_endpoint import Endpoint, ModelReply, by_loop, serving
from tests.worlds import agents

# The rule


def prompt(text: str, *returned: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "request", "parts": [*returned, {"part_kind": "user-prompt", "content": text}]}


def answer(text: str, *ids: str) -> dict[str, Any]:
    calls = [
        {
            "part_kind": "tool-call",
            "tool_name": "look",
            "tool_call_id": name,
            "args": {"what": text},
        }
        for name in ids
    ]
    return {"kind": "response", "parts": [{"part_kind": "text", "content": text}, *calls]}


def result(name: str, content: Any) -> dict[str, Any]:
    return {
        "part_kind": "tool-return",
        "tool_name": "look",
        "tool_call_id": name,
        "content": content,
    }


CONTENTS = st.one_of(
    st.integers(0, 6_000).map("r".__mul__),
    st.integers(0, 400).map(lambda size: {"found": ["é"] * size}),
)


@st.composite
def conversations(draw: Any) -> tuple[list[dict[str, Any]], int]:
    """Turns of some loops, some of which ended with calls that nobody made; and where the last one
    begins.
    """
    messages: list[dict[str, Any]] = []
    newest = 0
    unmade: list[str] = []
    turns = draw(st.integers(1, 6))
    for turn in range(turns):
        newest = len(messages)
        messages.append(
            prompt(
                f"{turn}:" + "p" * draw(st.integers(0, 3_000)),
                *(result(name, "not made") for name in unmade),
            )
        )
        unmade = []
        for loop in range(draw(st.integers(0, 4))):
            ids = [f"{turn}.{loop}.{number}" for number in range(draw(st.integers(1, 2)))]
            returned = [result(name, draw(CONTENTS)) for name in ids]
            messages += [
                answer("a" * draw(st.integers(0, 500)), *ids),
                {"kind": "request", "parts": returned},
            ]
        if turn < turns - 1:
            unmade = [f"{turn}.open"] if draw(st.booleans()) else []
            messages.append(answer("The answer.", *unmade))
    return messages, newest


def ids(messages: Any, kind: str) -> list[str]:
    return [
        part["tool_call_id"]
        for message in messages
        for part in message["parts"]
        if part["part_kind"] == kind
    ]


def least(messages: Any, newest: int) -> int:
    """How many messages are given at least: what the turn began with, and its last loop."""
    return 1 + min(2, len(messages) - 1 - newest)


@examples(conversations(), st.integers(0, 8_000))
def test_whatever_is_left_out_calls_have_their_results_and_the_newest_is_there(made, room):
    """Pure and the same each time; never more than fits unless that is the least; nothing of the
    conversation itself changes.
    """
    messages, newest = made
    before = copy.deepcopy(messages)
    given = window.given(messages, newest=newest, room=room)
    assert messages == before
    assert given == window.given(copy.deepcopy(messages), newest=newest, room=room)
    assert ids(given.messages, "tool-call") == ids(given.messages, "tool-return")
    kinds = [message["kind"] for message in given.messages]
    assert kinds == ["request", "response"] * (len(kinds) // 2) + ["request"]
    said = [
        part["content"]
        for message in given.messages
        for part in message["parts"]
        if part["part_kind"] == "user-prompt"
    ]
    assert said[-1].endswith(messages[newest]["parts"][-1]["content"])
    if newest + 2 < len(messages):
        assert given.messages[-2] == messages[-2]
    assert given.left_out == window._count(messages) - window._count(given.messages)
    assert (f"[{given.left_out} earlier message" in said[0]) == bool(given.left_out)
    total = sum(map(window.size_of, given.messages))
    assert total <= room or len(given.messages) == least(messages, newest)
    if sum(map(window.size_of, messages)) <= room:
        assert given.messages is messages
        assert not given.left_out and not given.shortened


LONG = {"rows": ["r" * 50] * 60}


def test_older_results_are_shortened_before_any_message_is_left_out():
    messages = [prompt("First"), answer("", "a"), {"kind": "request", "parts": [result("a", LONG)]},
        answer("Found."), prompt("Second"),
                answer("", "b"), {"kind": "request", "parts": [result("b", LONG)]}]  # fmt: skip
    given = window.given(messages, newest=4, room=1_400)
    assert (given.left_out, given.shortened, len(given.messages)) == (0, 1, 7)
    cut = given.messages[2]["parts"][0]["content"]
    assert (
        cut.startswith('{"rows": ["rrr')
        and "characters of this result are left out here. Call the tool again" in cut
    )
    assert given.messages[6] is messages[6]
    less = window.given(messages, newest=4, room=1_000)
    assert (less.left_out, less.shortened, len(less.messages)) == (3, 0, 3)
    assert less.messages[0]["parts"][0]["content"] == (
        "[3 earlier messages of this conversation are not given to you here, since it is "
        "too long.]\n\nSecond"
    )
    least = window.given(messages, newest=4, room=0)
    assert (least.left_out, least.shortened) == (3, 1)


def test_a_turn_of_many_loops_loses_its_oldest_ones_and_begins_alike_for_a_while():
    """What is left out grows in steps, so an endpoint that remembers how a request begins is not
    asked anew each time.
    """
    messages, starts = [prompt("Go")], []
    for loop in range(60):
        messages += [
            answer("a" * 400, str(loop)),
            {"kind": "request", "parts": [result(str(loop), "r" * 400)]},
        ]
        given = window.given(messages, newest=0, room=8_000)
        starts.append(given.messages[1]["parts"][1]["tool_call_id"])
        assert given.left_out == loop + 1 - (len(given.messages) - 1) // 2
    assert starts[0] == "0" and int(starts[-1]) > 30
    assert len(set(starts)) < 20, "with each loop it would be 35"


@pytest.mark.parametrize("wrong", [{"tokens": 10}, {"tokens": "many"}, {"messages": 5}, 5])
def test_a_history_that_is_none_is_refused_when_the_template_is_saved(wrong):
    with pytest.raises(ConfigInvalid) as refused:
        config.check({"history": wrong})
    assert next(iter(refused.value.errors)).startswith("history")
    assert config.read({"history": {"tokens": 500}}).history == 500


# In a run

served = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("templates", "file_database"),
]
WORDS = "words " * 1_500
"""About 2,250 tokens."""


@pytest.fixture
def endpoint():
    with serving(by_loop(ModelReply("Fine."))) as found:
        agents.load(found.url)
        yield found


def that_takes(endpoint: Endpoint, characters: int, *answers: ModelReply) -> None:
    """From now on the endpoint refuses what is longer."""
    inner = by_loop(*answers)

    def script(messages: list[dict[str, Any]]) -> ModelReply:
        told = sum(len(str(message.get("content") or "")) for message in messages)
        return (
            inner(messages)
            if told <= characters
            else ModelReply(status=400, error={"code": "context_length_exceeded"})
        )

    endpoint.script = script


@pytest.fixture
def thread(endpoint, ana, team):
    """Two long turns were taken on it."""
    found = threads.open_thread(by=ana, team=team)
    for number in (1, 2):
        agents.say(found, f"{number} {WORDS}", by=ana)
    return found


def halvings(thread):
    return [one for one in agents.events(thread, "log") if one.get("what") == "history_halved"]


class TestOnAThread:
    pytestmark = served

    def test_what_does_not_fit_is_not_given_and_page_log_api_and_state_say_so(
        self, endpoint, thread, ana, page
    ):
        """The state keeps everything."""
        agents.load(endpoint.url, history={"tokens": 3_500})
        assert agents.say(thread, "And now?", by=ana).status == "completed"
        heard = [one for one in endpoint.requests[-1]["messages"] if one["role"] != "system"]
        assert [one["role"] for one in heard] == ["user", "assistant", "user"]
        assert heard[0]["content"].startswith(
            "[2 earlier messages of this conversation are not given to you here"
        )
        mind = agents.mind(thread.pk)
        assert (
            len(mind["prompt_messages"]) == 6
            and mind["prompt_messages"][0]["parts"][0]["content"] == f"1 {WORDS}"
        )
        assert mind["intermediate_steps"]["1"]["left_out"] == {"messages": 2}
        told = [one for one in agents.events(thread, "log") if one.get("what") == "usage"][-1]
        assert "2 earlier messages were not given to the model." in told["message"] and told[
            "left_out"
        ] == {"messages": 2}
        shown = page.get(f"/threads/{thread.shown_id}/").content.decode()
        words = "2 earlier messages were not given to the model. The state keeps all of it."
        assert shown.count(words) == 1
        said = page.get(f"/api/v1/threads/{thread.shown_id}/messages").json()["results"]
        assert [one["left_out"] for one in said if one["role"] == "assistant"][-1] == {
            "messages": 2,
            "results": 0,
        }
        assert said[0]["left_out"] == {"messages": 0, "results": 0}

    def test_an_endpoint_that_takes_less_gets_half_once_and_less_for_the_rest_of_the_turn(
        self, endpoint, thread, ana
    ):
        that_takes(
            endpoint, 12_000, ModelReply("", [("test_look", {"what": "x"})]), ModelReply("Done.")
        )
        before = len(endpoint.requests)
        assert agents.say(thread, "And now?", by=ana).status == "completed"
        assert len(endpoint.requests) - before == 3, (
            "refused, half, and the second loop at once with less"
        )
        [told] = halvings(thread)
        assert told["level"] == "warning" and 2_000 < told["room"] < 3_000
        steps = agents.mind(thread.pk)["intermediate_steps"]
        assert [steps[loop]["left_out"] for loop in ("1", "2")] == [
            {"messages": 4},
            {"messages": 4},
        ]
        agents.say(thread, "Once more", by=ana)
        assert len(halvings(thread)) == 2, (
            "another turn finds out anew: the model may be another one"
        )

    def test_half_that_is_too_much_still_fails_with_words_and_a_retry_does_not_ask_all_again(
        self, endpoint, thread, ana
    ):
        that_takes(endpoint, 10, ModelReply("Done."))
        before = len(endpoint.requests)
        run = agents.say(thread, "And now, after all this?", by=ana)
        assert (run.status, run.failure_code, len(endpoint.requests) - before) == (
            "failed",
            "context_overflow",
            2,
        )
        assert "also when half of it was left out" in run.error and "history" in run.error
        endpoint.script = by_loop(ModelReply("Done."))
        again = agents.go_on(doors.resume(run.pk, by=ana, via=Via.REST).run)
        assert (again.status, len(endpoint.requests) - before, len(halvings(thread))) == (
            "completed",
            3,
            1,
        )
        assert endpoint.requests[-1]["messages"][0]["content"].startswith("[4 earlier messages")

    def test_where_nothing_can_be_left_out_nothing_is_asked_again(self, endpoint, ana):
        that_takes(endpoint, 10, ModelReply("Done."))
        run = agents.say(threads.open_thread(by=ana), WORDS, by=ana)
        assert (run.failure_code, len(endpoint.requests)) == ("context_overflow", 1)
        assert "nothing of it can be left out" in run.error

    @pytest.mark.one_database
    def test_a_crash_anywhere_asks_for_all_of_it_at_most_once_more(self, endpoint, ana):
        """A death before the record repeats the refused request; one after it never does.

        The story is told once.
        """
        that_takes(endpoint, 10_000, ModelReply("Done."))
        moment = 0
        while True:
            moment += 1
            thread = threads.open_thread(by=ana)
            agents.say(thread, WORDS, by=ana)
            run = threads.invoke(
                thread.pk,
                threads.Turn(template="agent-test", input={"input": "Now? " * 200}),
                by=ana,
            )
            before = len(endpoint.requests)
            with crash.killing(moment, statements=False) as moments:
                agents.go_on(run)
            known = bool(halvings(thread))
            asked = len(endpoint.requests)
            crash.work_off()
            run.refresh_from_db()
            assert (run.status, len(halvings(thread))) == ("completed", 1), (
                f"after a death at moment {moment}"
            )
            if moments.dead and known:
                later = endpoint.requests[asked:]
                assert all(
                    one["messages"][0]["content"].startswith("[2 earlier") for one in later
                ), "it was known to be too long"
            assert len(endpoint.requests) - before <= 4
            if not moments.dead:
                break
        assert moment > 4
        head = Checkpoint.objects.filter(thread=thread).latest("id")
        assert len(store.load(head)["agent"]["agent"]["prompt_messages"]) == 4
