"""Mails, and messages in chats, in German: none holds English."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from django.core import mail
from django.utils import translation

from extensions.langgraph.graphs import questions
from extensions.slack import modals
from hitl.channels import registry, words
from hitl.channels.protocol import PostingChannel
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from hitl.models.outbound import ASKING, ORDER_ENDS, Delivery, Occasion
from hitl.outbound import mail as letters
from hitl.outbound import messages
from hitl.rendering.own_words import in_words, own
from runs.models import Pause, Run
from tests.conftest import drive, pause_of
from tests.languages import leftovers
from tests.worlds.books import invoices
from tests.worlds.books.booking import House
from tests.worlds.mailing import chatting as chatting
from tests.worlds.mailing import reachable as reachable
from tests.worlds.mailing import relay

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("reachable")]
NAMES = {
    "Writing",
    "writing",
    "Die Antwort",
    "approve",
    "revise",
    "cancel",
    "connect",
    "Menu",
    "me",
}
"""What a template is called, and the words that people write to us."""


@pytest.fixture
def told(paused) -> Pause:
    relay()
    mail.outbox.clear()
    return pause_of(paused)


def strings(value: Any) -> Iterator[str]:
    """The texts of a message as a chat takes it, without what its programs read."""
    if isinstance(value, Mapping):
        read = {"text", "label", "placeholder", "title", "submit", "close", "hint", "description"}
        for name, part in value.items():
            if not isinstance(part, str) or name in read:
                yield from strings(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from strings(part)
    elif isinstance(value, str):
        yield value


def nothing_in(*texts: str) -> None:
    found = list(leftovers.of_texts(texts, NAMES))
    assert not found, "\n".join(found)


def of(pause: Pause, occasion: str) -> Delivery:
    delivery = Delivery.objects.shown().filter(pause=pause, recipient__isnull=False)[0]
    delivery.occasion = occasion
    delivery.pause.content = ""  # a document stays as it was written
    return delivery


@pytest.mark.parametrize("occasion", sorted({*Occasion.values} - {"account"}))
def test_each_message_of_a_question(told, ana, occasion):
    if occasion not in ASKING and occasion not in {Occasion.MENTIONED, Occasion.REPLIED}:
        services.decide(told.pk, Answer("approve", Via.PAGE), by=ana)
    delivery = of(told, occasion)
    if occasion in ORDER_ENDS:
        delivery.run = Run.objects.shown().get(pk=told.run_id)
        delivery.run.error = "Cancelled by user at planning phase"
    elif occasion == Occasion.TEST:
        delivery.pause = None
    elif occasion == Occasion.REFINED:
        delivery.pause.refined = "Betrag: Must be at least 3. Grund: This is needed."
    elif occasion == Occasion.REPLIED:
        delivery.mark, delivery.words = uuid.UUID(int=0).hex, "Ihre Antwort wurde genommen."
    with translation.override("de"):
        message = messages.of(delivery)
        letters.send(delivery, message)
        whole = mail.outbox[-1]
        assert whole.alternatives[0][1] == "text/html"
        nothing_in(str(whole.subject), *whole.body.splitlines())
        assert not list(leftovers.of_page(str(whole.alternatives[0][0]), NAMES))
        nothing_in(*messages.text_of(message).splitlines())
        for channel in registry.channels():
            if isinstance(channel, PostingChannel):
                nothing_in(*strings(channel.render(delivery, message)))


def test_a_digest(told):
    with translation.override("de"):
        message = messages.of(of(told, Occasion.ASKED))
        letters.send_digest(of(told, Occasion.ASKED), [message, message])
        nothing_in(str(mail.outbox[-1].subject), *mail.outbox[-1].body.splitlines())
        nothing_in(*messages.list_of([message, message]).splitlines())


@pytest.mark.parametrize("invoice", ["wrong_total", "without_vat_id", "unknown_supplier"])
def test_the_questions_of_what_ships(make_order, settings, tmp_path, ana, invoice):
    settings.WAYSTATION_SHARED = tmp_path / "shared"
    order = House(make_order, tmp_path, ana).book(getattr(invoices, invoice)())
    relay()
    delivery = of(pause_of(order), Occasion.ASKED)
    names = {order.title, "Smart-booking", "smart-booking"}
    with translation.override("de"):
        message = messages.of(delivery)
        said = [message.subject, *messages.text_of(message).splitlines()]
        for channel in registry.channels():
            if isinstance(channel, PostingChannel):
                said += strings(channel.render(delivery, message))
        assert not list(leftovers.of_texts(said, NAMES | names))


def test_windows_of_slack(told, make_order):
    """Of an answer in words, and of one with data."""
    with translation.override("de"):
        for action in ("revise", "approve", "cancel"):
            asked = modals.Asked(told.shown_id, told.revision, action)
            nothing_in(*strings(modals.form_for(told, asked)))
        nothing_in(*strings(modals.connecting()))


@pytest.mark.parametrize(
    "text",
    ["", "cancel", "revise:", "approve now", "approve: it", "hm", "ok then", "ja, aber nein"],
)
def test_what_was_not_clear(told, text):
    with translation.override("de"), pytest.raises(words.Unclear) as unclear:
        words.answer_in(text, told, via=Via.TEAMS, revision=1)
    nothing_in(str(unclear.value))


def test_what_became_of_an_answer(told, ana, ben, zoe):
    with translation.override("de"):
        for by in (zoe, ana, ben):
            nothing_in(words.give(told, Answer("approve", Via.SLACK, revision=1), by=by).words)


def test_what_channels_say_of_themselves():
    with translation.override("de"):
        for channel in registry.channels():
            named = [getattr(channel, name, "") for name in ("connect", "connected", "stranger")]
            nothing_in(*map(str, named))


def test_what_graphs_and_agents_ask():
    raised = [
        {"action_request": {"action": "send_mail", "args": {}}, "config": {flag: True}}
        for flag in ("allow_accept", "allow_edit", "allow_respond", "allow_ignore")
    ]
    with translation.override("de"):
        for value in (*raised, {}, "ja"):
            made = questions.question(
                questions.Raised(id="0" * 32, value=value),
                step="s", graph="g", update={}, material={}, waiting=1,
            )  # fmt: skip
            labels = [made.question, *made.labels.values(), *made.report.facts]
            nothing_in(*map(own, labels))
            schema = json.dumps(in_words(made.required_inputs or {}), ensure_ascii=False)
            shown = re.findall(r'"(?:title|description)": "([^"]*)"', schema)
            nothing_in(*shown, *re.findall(r'"enumNames": \[([^]]*)\]', schema))
        nothing_in(own("May this be done: send_mail?"), own("May the agent use Bash?"))


def test_a_run_that_ended_is_told_as_it_ended(make_order, ana):
    order = drive(make_order())
    services.decide(pause_of(order).pk, Answer("cancel", Via.PAGE), by=ana)
    with translation.override("de"):
        nothing_in(messages.outcome_of(Pause.objects.get(run__work_order=order)))
