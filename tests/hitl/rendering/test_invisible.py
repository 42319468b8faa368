"""Characters that a screen does not show stand visibly wherever people review what others wrote
(P6).
"""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client
from hypothesis import example, given
from hypothesis import strategies as st

from checkpoints.text import invisible
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Decision, Via
from runs.models import WorkOrder
from runs.workflows.base import Ask, Report
from tests.conftest import drive, pause_of
from tests.worlds.mailing import relay
from tests.worlds.scripted_step import order_that as order_that

pytestmark = pytest.mark.django_db

HIDDEN = "\x1b\x07\x85\u202e\u2066\u200f\u061c\u200b\u2060\ufeff\u2028\U000e0041\U000e0101\u3164"
TYPED = {"textarea", "input", "script", "style"}
"""What is in them is sent as it stands, or is no text."""


@pytest.mark.parametrize("character", HIDDEN)
def test_each_such_character_has_a_chip_with_its_name(character):
    """A review could hold `\\u202e` and nobody saw that the words after it read backwards."""
    shown = invisible.html(f"a{character}<b>")
    assert character not in shown
    assert 'class="unseen" role="img" aria-label="' in shown
    assert shown.startswith("a<span")
    assert shown.endswith("&lt;b&gt;")
    assert character not in invisible.plain(character)
    assert invisible.found(character)


@pytest.mark.parametrize(
    "text", ["", "a b\tc\nd", "a\r\nb", "naïve Straße 日本語 עברית", "❤️ 👨‍👩‍👧 1️⃣ 🏳️‍🌈", "¼ £"]
)
def test_what_is_seen_stays_as_it_is(text):
    assert invisible.plain(text) == text
    assert invisible.found(text) == []


def test_a_joiner_that_joins_no_pictures_is_shown():
    for text in ("a\u200db", "👨\u200d", "\u200d👨", "a\ufe0f"):
        assert invisible.found(text), text


def test_tags_are_spelled_and_long_stretches_are_counted():
    """Models read tag characters as words, people read nothing."""
    spelled = "".join(chr(0xE0000 + ord(letter)) for letter in "pay eve")
    assert invisible.plain(f"x{spelled}") == "x⟦tags: pay eve⟧"
    assert invisible.plain("\u200b" * 40_000) == "⟦U+200B ×40,000⟧"
    assert len(invisible.html("\u200b\u200c" * 40_000)) < 5_000


def test_a_byte_that_is_no_text_is_shown_as_that_byte():
    """Two different bytes were both shown as the same question mark."""
    text = b"caf\xe9 \xff".decode("utf-8", "surrogateescape")
    assert invisible.plain(text) == "caf⟦byte E9⟧ ⟦byte FF⟧"


@given(st.text())
@example("a\r\r\n\u200d❤\ufe0f")
def test_of_any_text_nothing_is_lost_and_nothing_stays_hidden(text):
    assert not [one for one in invisible.plain(text) if one in HIDDEN]
    assert "".join(piece for piece in invisible.pieces(text) if isinstance(piece, str)) == "".join(
        text[begin:end] for begin, end in _seen(text)
    )
    invisible.html(text).encode()


def _seen(text):
    """The places of a text that stay as they are."""
    at = 0
    for piece in invisible.pieces(text):
        if isinstance(piece, str):
            begin = text.index(piece, at)
            at = begin + len(piece)
            yield begin, at


class Texts(HTMLParser):
    """What a page says outside of fields."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.inside, self.said = [], []

    def handle_starttag(self, tag, attrs):
        if tag in TYPED - {"input"}:
            self.inside.append(tag)
        self.said += [value or "" for name, value in attrs if name in {"title", "aria-label"}]

    def handle_endtag(self, tag):
        if self.inside and tag == self.inside[-1]:
            self.inside.pop()

    def handle_data(self, data):
        if not self.inside:
            self.said.append(data)


def hidden_in(content):
    page = Texts()
    page.feed(content)
    return [one for one in page.said if re.search(f"[{HIDDEN}]", one)]


@pytest.fixture
def asked(order_that, ana):
    """A question of whose every text a part cannot be seen; its second revision."""
    odd = f"odd{HIDDEN}words"
    report = Report(
        content=f"# {odd}\n\n`{odd}` [{odd}](https://e.example/{odd})\n\n    {odd}\n",
        patch=f"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+{odd}\n",
        facts={odd: odd},
        effects=[odd],
    )
    answers = {"approve": "finish", "revise": "planning", "other": "finish"}

    def step(state, context):
        context.log(odd)
        return Ask(question=odd, answers=answers, labels={"other": odd}, report=report)

    order = order_that(step)
    WorkOrder.objects.update(title=odd, request=odd, input={odd: odd}, repository_url=odd)
    order = drive(order)
    services.decide(pause_of(order).pk, Answer("revise", Via.PAGE, feedback=odd), by=ana)
    return drive(order)


@pytest.fixture
def operator(db):
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


def test_no_page_of_a_review_hides_one(page, asked, ana, operator):
    """A right-to-left mark made a reviewer read another order than was approved."""
    pause = pause_of(asked)
    paths = [
        f"/work-orders/{asked.shown_id}/",
        "/",
        f"/pauses/{pause.shown_id}/cancel",
        f"/pauses/{pause.shown_id}/patch",
    ]
    paths += [f"/several?pause={pause.shown_id}"]
    shown = {path: page.get(path) for path in paths}
    shown |= {
        path: operator.get(path)
        for path in (f"/admin/runs/pause/{pause.pk}/change/", "/admin/runs/pause/")
    }
    services.decide(pause.pk, Answer("approve", Via.PAGE, feedback=f"yes{HIDDEN}"), by=ana)
    decision = Decision.objects.latest("decided_at")
    shown |= {path: page.get(path) for path in (f"/decisions/{decision.shown_id}/", "/")}
    shown |= {path: operator.get(path) for path in (f"/admin/hitl/decision/{decision.pk}/change/",)}
    for path, response in shown.items():
        assert response.status_code == 200, path
        assert hidden_in(response.content.decode()) == [], path


def test_the_patch_under_review_is_given_byte_by_byte_on_demand(page, asked):
    pause = pause_of(asked)
    exact = page.get(f"/pauses/{pause.shown_id}/patch?exact")
    assert HIDDEN in exact.content.decode()
    assert exact["Content-Disposition"].startswith("attachment")


def test_a_mail_hides_none_either(asked, ana, operator):
    """The text of a mail stood in the reader's program as it was sent."""
    User.objects.update(email="somebody@example.org")
    relay()
    assert mail.outbox
    for message in mail.outbox:
        for said in (message.subject, message.body, *(part[0] for part in message.alternatives)):
            assert hidden_in(said) == []
