"""Damaged rows: the page says what is wrong instead of failing."""

from __future__ import annotations

import pytest

from checkpoints.models import Blob
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from tests.conftest import drive, pause_of

pytestmark = pytest.mark.django_db


def test_a_patch_that_cannot_be_read_is_said_on_the_page(make_order, ana, page):
    order = drive(make_order())
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    order = drive(order)
    pause = pause_of(order)
    Blob.objects.filter(pk=pause.patch_digest).update(content=b"nonsense")
    response = page.get(f"/work-orders/{order.shown_id}/")
    assert response.status_code == 200
    assert b"The patch cannot be shown" in response.content
    assert page.get(f"/pauses/{pause.shown_id}/patch").status_code == 404
