"""Telling people: who is told of what, once each, and what becomes of it when the question is closed."""

from __future__ import annotations

import pytest
from django.core import mail

from hitl.outbound import planning, sending
from hitl.outbound_models import Delivery

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
