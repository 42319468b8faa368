"""Mails and messages whose shape is the attack: read in linear time, and never an error of ours."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from time import process_time

import pytest
from django.test import Client
from django.utils import timezone

from extensions.teams import channel as teams
from hitl.models import ChatAccount, Decision
from hitl.outbound import signatures
from tests.conftest import pause_of

pytestmark = pytest.mark.django_db
MAIL, TEAMS = "/api/v1/channels/mail", "/api/v1/channels/teams"
SECRET = "whsec_" + "YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4"
TEAMS_SECRET = base64.b64encode(b"the token that Teams showed once").decode()
SECONDS = 10
"""Of the processor, for what takes a tenth of one; what takes squares takes minutes."""
HEADERS = b"From: Ben <ben@example.org>\nTo: reply@ways.example\n"
HTML = HEADERS + b"Content-Type: text/html\n\n"
MAILS = {
    "a declaration that is none": (HTML + b"<p>approve</p><![<![", 200),
    "an entity that is no number": (HTML + b"&#" + b"1" * 5_000 + b"; approve", 200),
    "comments in an address": (b"From: a@b.example\nTo: " + b"(" * 18_000 + b"\n\na", 200),
    "a kind of semicolons": (
        HEADERS + b"Content-Type: text/plain" + b";" * 400_000 + b"\n\nx", 400,
    ),
    "a part's kind of semicolons": (
        HEADERS + b"Content-Type: multipart/mixed; boundary=a\n\n--a\nContent-Type: text/plain"
        + b";" * 400_000 + b"\n\napprove\n--a--\n", 400,
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def soon() -> Iterator[None]:
    begin = process_time()
    yield
    assert process_time() - begin < SECONDS


@pytest.mark.parametrize(("raw", "status"), MAILS.values(), ids=MAILS)
def test_no_mail_is_an_error_of_ours_or_holds_a_process(raw, status, settings):
    """The library cuts a parameter off the rest again and again: 2 MB took minutes."""
    settings.WAYSTATION_REPLY_ADDRESS = "reply@ways.example"
    settings.WAYSTATION_REPLY_SECRETS = [SECRET]
    headers = signatures.headers("m1", int(timezone.now().timestamp()), raw, [SECRET])
    answer = Client().post(MAIL, raw, content_type="message/rfc822", headers=headers)
    assert answer.status_code == status, answer.content
    assert not Decision.objects.exists()


def test_an_entity_that_is_no_number_is_no_error_in_teams(paused, ben, settings):
    """It was 500, for whoever may write there."""
    settings.WAYSTATION_TEAMS_SECRETS = [TEAMS_SECRET]
    ChatAccount.objects.create(service="teams", team="t", account="w", user=ben)
    text = f"<at>Waystation</at> {pause_of(paused).shown_id} a &#{'1' * 5_000}; b"
    body = json.dumps(
        {
            "type": "message", "id": "1", "channelId": "msteams", "textFormat": "plain",
            "timestamp": timezone.now().isoformat().replace("+00:00", "Z"),
            "from": {"id": "x", "name": "Ben", "aadObjectId": "w"},
            "channelData": {"tenant": {"id": "t"}}, "text": text,
        }
    ).encode()  # fmt: skip
    signed = f"HMAC {teams.signature(TEAMS_SECRET, body)}"
    answer = Client().post(
        TEAMS, body, content_type="application/json", headers={"Authorization": signed}
    )
    assert answer.status_code == 200, answer.content
    assert not Decision.objects.filter(action="approve").exists()
