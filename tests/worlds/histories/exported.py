"""An order with a history, as a document that is read again."""

from __future__ import annotations

import json

import pytest

from checkpoints.export import thread_document
from checkpoints.models import Memo
from checkpoints.state import codec
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from hitl.threads import export as whole
from tests.conftest import drive, pause_of
from tests.worlds.histories.documents import signed
from tests.worlds.histories.whole_story import broken

LIMIT = 10_000_000


def read(document):
    return thread_document.read(signed(document), limit=LIMIT)


def bring_in(document, owner):
    return whole.load(read(json.loads(codec.encode(document))), owner=owner).thread


def holds():
    return list(broken())


@pytest.fixture
def told(make_order, ana):
    """An order that was revised once, approved, and waits for its review: two decisions, three
    questions, a blob.
    """
    order = drive(make_order())
    services.decide(pause_of(order).pk, Answer("revise", Via.PAGE, feedback="shorter"), by=ana)
    order = drive(order)
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    order = drive(order)
    Memo.objects.create(
        thread=order.thread,
        scope=f"{order.latest_run.shown_id}/execute/1",
        key="k",
        value=[{"a": None}],
    )
    return order
