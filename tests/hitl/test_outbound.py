"""Telling people: who is told of what, once each, and what becomes of it when the question is closed."""

from __future__ import annotations

import datetime as dt

import pytest
from django.core import mail
from django.utils import timezone

from hitl import outbound, services
from hitl.models import Via
from hitl.outbound import endpoints, planning, sending
from hitl.outbound_models import Delivery, Endpoint, Link
from runs.models import Pause
from tests.conftest import drive, pause_of

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def addresses(request):
    """Ana and Ben have mail addresses; Zoe, who sees nothing, has one too."""
    if "paused" in request.fixturenames or "make_order" in request.fixturenames:
        for name in ("ana", "ben", "zoe"):
            user = request.getfixturevalue(name)
            user.email = f"{name}@example.org"
            user.save()


def relay():
    planning.announce()
    return sending.deliver(seconds=30)


def test_a_question_is_mailed_to_those_who_may_answer_and_to_nobody_else(paused):
    """S3-11, S3-28, F30."""
    relay()
    assert sorted(one.to[0] for one in mail.outbox) == ["ana@example.org", "ben@example.org"]
    assert set(Delivery.objects.values_list("status", flat=True)) == {"sent"}
