"""What a model thinks aloud: heard live and apart, kept for people, never the answer, and not sent
back to who does not want it.
"""

from __future__ import annotations

import datetime as dt
import json

import pytest
from django.utils import timezone

from checkpoints.models import Event, Thread
from hitl.views.threads import chat
from runs import retention
from runs.agents import memory, model
from runs.agents.model import client
from runs.security import credentials
from runs.threads import conversation
from runs.workflows.base import Context, Go, Outcome, State
from tests.conftest import drive
from tests.databases.encryption_keys import NEW, keys
from tests.databases.whole import file_database as file_database
from tests.servers.model_endpoint import ModelReply, by_loop, serving
from tests.worlds import agents
from tests.worlds.agents import thread as thread
from tests.worlds.histories.whole_story import broken
from tests.worlds.scripted_step import order_that as order_that

THOUGHTS = "The user wants a sum. Six times seven."
ANSWER = "It is 42."


@pytest.fixture
def endpoint():
    with serving(by_loop(ModelReply(ANSWER, thinking=THOUGHTS))) as found:
        agents.load(found.url)
        yield found


def streamed(thread: Thread) -> list[tuple[str, str]]:
    return [
        (one["content"].strip(), one.get("thinking", "").strip())
        for one in agents.events(thread, "streaming_chunk")
    ]


served = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("templates", "file_database"),
]


class TestAnAgent:
    pytestmark = served

    def test_thoughts_are_chunks_of_their_own_before_the_answer_and_no_part_of_it(
        self, endpoint, thread, ana
    ):
        run = agents.say(thread, "6 * 7?", by=ana)
        heard = streamed(thread)
        assert all(bool(said) != bool(thought) for said, thought in heard)
        assert [bool(thought) for _, thought in heard] == sorted(
            (bool(thought) for _, thought in heard), reverse=True
        ), "thoughts first"
        assert " ".join(thought for _, thought in heard if thought) == THOUGHTS
        events = list(Event.objects.filter(thread=thread).order_by("seq"))
        assert (conversation.text_of(events).strip(), conversation.thinking_of(events).strip()) == (
            ANSWER,
            THOUGHTS,
        )
        assert (chat._stream(events).text.strip(), chat._stream(events).thinking.strip()) == (
            ANSWER,
            THOUGHTS,
        )
        mind = agents.mind(thread.pk)
        assert run.status == "completed" and [
            part["part_kind"] for part in mind["prompt_messages"][-1]["parts"]
        ] == ["text"]

    def test_page_and_api_show_them_closed_beside_the_answer(self, endpoint, thread, ana, page):
        agents.say(thread, "6 * 7?", by=ana)
        shown = page.get(f"/threads/{thread.shown_id}/").content.decode()
        assert "Thinking</summary>" in shown and THOUGHTS in shown
        assert (
            '<details class="thinking" data-fold="thinking-msg_' in shown
            and "<details open" not in shown
        )
        said = page.get(f"/api/v1/threads/{thread.shown_id}/messages").json()["results"]
        assert [(one["role"], one["content"].strip(), one["thinking"].strip()) for one in said] == [
            ("user", "6 * 7?", ""), ("assistant", ANSWER, THOUGHTS),
        ]  # fmt: skip

    def test_an_endpoint_is_not_sent_back_what_it_thought(self, endpoint, thread, ana):
        """Also not what older states hold of it."""
        agents.say(thread, "6 * 7?", by=ana)
        endpoint.script = by_loop(ModelReply(f"<think> {THOUGHTS} </think> {ANSWER}"))
        agents.say(thread, "And once more?", by=ana)
        agents.say(thread, "And now?", by=ana)
        assert "Six times" not in json.dumps(endpoint.requests)
        assert [one.strip() for one, _ in streamed(thread) if "think>" in one] == [], (
            "tags in the text are thoughts too"
        )
        assert [
            said["content"].strip()
            for said in endpoint.requests[-1]["messages"]
            if said["role"] == "assistant"
        ] == [ANSWER, ANSWER]

    def test_long_thoughts_are_kept_in_part(self, endpoint, thread, ana, page):
        endpoint.script = by_loop(ModelReply(ANSWER, thinking="hm " * 1_500))
        agents.say(thread, "Go", by=ana)
        [_, said] = page.get(f"/api/v1/threads/{thread.shown_id}/messages").json()["results"]
        assert 3_900 < len(said["thinking"]) <= 4_000
        assert "[truncated]" in said["thinking"]

    def test_they_are_folded_like_all_that_was_streamed(self, endpoint, thread, ana, settings):
        """What stands beside the answer stays."""
        settings.WAYSTATION_KEEP_CHUNK_HOURS = 1e-9
        agents.say(thread, "6 * 7?", by=ana)
        assert streamed(thread)
        retention.prune(now=timezone.now() + dt.timedelta(hours=1))
        assert not streamed(thread)
        assert broken() == {}


SECRET = "sk-Wiesenschaumkraut-1234567890"


def thinking_aloud(state: State, context: Context) -> Outcome:
    secret = context.credential("forge")
    context.think(f"The key is {secret[:9]}")
    context.think(secret[9:] + ", I think; sk-")
    context.stream("I know sk-")
    context.think("the key")
    context.stream("nothing.")
    return Go()


@pytest.mark.usefixtures("templates", "file_database")
@pytest.mark.django_db(transaction=True)
def test_secrets_are_out_of_thoughts_too_and_both_voices_keep_their_order(order_that):
    with keys(NEW):
        credentials.put("forge", SECRET)
        order = drive(order_that(thinking_aloud))
        said: list[tuple[str, str]] = []
        for event in Event.objects.filter(kind="streaming_chunk").order_by("seq"):
            kind = "thought" if event.data.get("thinking") else "said"
            text = event.data.get("thinking") or event.data["content"]
            said[-1:] = (
                [(kind, said[-1][1] + text)]
                if said and said[-1][0] == kind
                else [*said[-1:], (kind, text)]
            )
    assert order.status == "completed"
    assert said == [
        ("thought", "The key is [redacted], I think; sk-"),
        ("said", "I know sk-"),
        ("thought", "the key"),
        ("said", "nothing."),
    ]


def thought(**more):
    return {
        "part_kind": "thinking",
        "content": "hm",
        "signature": "signed",
        "provider_name": "anthropic",
        **more,
    }


@pytest.mark.parametrize(
    ("part", "named", "sent"),
    [
        (thought(), "anthropic:claude", True),
        (thought(signature=None), "anthropic:claude", False),
        (thought(provider_name="openai"), "anthropic:claude", False),
        (thought(content="the key is [redacted]"), "anthropic:claude", False),
        (thought(), "openai:gpt", False),
        (thought(), "scripted", False),
    ],
)
def test_only_anthropic_gets_back_what_it_signed_itself_unchanged(part, named, sent):
    message = {"kind": "response", "parts": [part, {"part_kind": "text", "content": "x"}]}
    got = client._without_thoughts(message, model.ModelEndpoint(model=named))
    assert (len(got["parts"]) == 2) is sent
    assert memory.text_of(message) == "x"
