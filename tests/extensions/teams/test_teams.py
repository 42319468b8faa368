"""Teams: words to an outgoing webhook answer as the person whose account was connected."""

from __future__ import annotations

import base64
import datetime as dt
import json

import pytest
from django.test import Client
from django.utils import timezone

from extensions.teams import channel as teams
from hitl.channels import accounts
from hitl.models import ChatAccount, Decision, Via
from hitl.models.outbound import Endpoint
from runs.models import Pause
from tests.conftest import pause_of
from tests.databases.whole import rows
from tests.worlds.mailing import chatting as chatting
from tests.worlds.mailing import relay

pytestmark = pytest.mark.django_db
DOOR = "/api/v1/channels/teams"
SECRET = base64.b64encode(b"the token that Teams showed once").decode()
TENANT, WHO = "72f988bf-0000-0000-0000-2d7cd011db47", "aad-1"


@pytest.fixture(autouse=True)
def secrets(settings):
    settings.WAYSTATION_TEAMS_SECRETS = [SECRET]


@pytest.fixture
def ben_there(ben):
    ChatAccount.objects.create(service="teams", team=TENANT, account=WHO, user=ben)
    return ben


def write(text, *, secret=SECRET, who=WHO, at=None, header="", **more):
    """What Teams sends of a message that mentions the webhook."""
    activity = {
        "type": "message", "id": "1485983408511", "channelId": "msteams", "textFormat": "plain",
        "timestamp": (at or timezone.now()).isoformat().replace("+00:00", "Z"),
        "from": {"id": "29:1XJKJ", "name": "Ben", "aadObjectId": who},
        "conversation": {"id": "19:x@thread.skype"},
        "channelData": {"tenant": {"id": TENANT}, "team": {"id": "19:y"}},
        "text": f"<at>Waystation</at>&nbsp;{text}", **more,
    }  # fmt: skip
    body = json.dumps(activity).encode()
    signed = header or f"HMAC {teams.signature(secret, body)}"
    return Client().post(
        DOOR, body, content_type="application/json", headers={"Authorization": signed}
    )


def said(text, **how):
    answer = write(text, **how)
    assert answer.status_code == 200, answer.content
    assert answer.json()["type"] == "message"
    return answer.json()["text"]


def test_the_signature_is_hmac_sha256_over_the_body():
    """RFC 4231, case 2: Microsoft publishes no figures, only that it is this."""
    key = base64.b64encode(b"Jefe").decode()
    figures = bytes.fromhex("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
    body = b"what do ya want for nothing?"
    assert teams.signature(key, body) == base64.b64encode(figures).decode()
    header = f"HMAC {base64.b64encode(figures).decode()}"
    assert teams.is_genuine([SECRET, key], header=header, body=body)
    for wrong in ("", "HMAC", f"Bearer {header[5:]}", header[5:], "HMAC -", "HMAC ä"):
        assert not teams.is_genuine([key, "no base64", ""], header=wrong, body=body)
    assert not teams.is_genuine([], header=header, body=body)


def test_what_teams_did_not_sign_or_is_old_is_not_done(paused, ben_there, settings):
    """Teams signs no time: the message's own counts."""
    text, before = f"approve {pause_of(paused).shown_id}", rows()
    old = timezone.now() - dt.timedelta(minutes=6)
    answers = [
        write(text, secret=base64.b64encode(b"another").decode()), write(text, header="HMAC x"),
        write(text, at=old), write(text, timestamp="yesterday"), write(text, timestamp=None),
        write(text, timestamp=timezone.now().replace(tzinfo=None).isoformat()),
    ]  # fmt: skip
    settings.WAYSTATION_TEAMS_SECRETS = []
    answers.append(write(text))
    for answer in answers:
        assert (answer.status_code, answer.json()["code"]) == (401, "signature_invalid")
    assert Client().get(DOOR).status_code == 405
    assert rows() == before


@pytest.mark.both_databases
def test_words_answer_a_question(paused, ben_there):
    """S3-22. Again, with the same message: decided once, and told so."""
    pause = pause_of(paused)
    at = timezone.now()
    text = f"approve {pause.shown_id}"
    assert "recorded as your answer" in said(text, at=at)
    decision = Decision.objects.get()
    assert (decision.action, decision.decided_by, decision.via) == ("approve", ben_there, Via.TEAMS)
    assert "Already approved by Ben" in said(text, at=at)
    assert Decision.objects.count() == 1


@pytest.mark.parametrize("text", ["revise {}: shorter, please", "{} revise: shorter, please"])
def test_words_send_it_back(paused, ben_there, text):
    assert "recorded" in said(text.format(pause_of(paused).shown_id))
    assert Decision.objects.get().feedback == "shorter, please"


def test_what_is_unclear_changes_nothing_and_is_answered(paused, ben_there, subtests):
    for text, words in [
        ("approve", "question's id"),
        ("", "question's id"),
        ("ok {}", "not clear"),
        ("{}", "not clear"),
        ("cancel {}", "open the page"),
        ("approve pse_00000000000000000000000000", "no such question"),
    ]:
        with subtests.test(ascii(text)[:60]):
            assert words in said(text.format(pause_of(paused).shown_id))
            assert not Decision.objects.exists()


def test_who_is_not_connected_is_told_how(paused, ben, zoe):
    text = f"approve {pause_of(paused).shown_id}"
    assert "does not know" in said(text)
    code = accounts.new_code(ben)
    assert "code is not valid now" in said("connect AAAA-BBBB")
    assert "answer here as Ben" in said(f"connect {code}")
    assert "code is not valid now" in said(f"connect {code}", who="eve")
    ChatAccount.objects.update(user=zoe)
    assert "no such question" in said(text)
    assert not Decision.objects.exists()


def test_high_risk_and_what_is_not_seen_whole_is_answered_on_its_page(paused, ben_there):
    text = f"approve {pause_of(paused).shown_id}"
    for change in ({"review": {"risk": "high"}}, {"review": {}, "content": "x" * 3_001}):
        Pause.objects.update(**change)
        assert "Answer on its page" in said(text)
    assert not Decision.objects.exists()


def test_a_message_in_teams_says_how_it_is_answered(paused, chatting):
    url = "workflows://prod-1.logic.azure.com:443/643e69f83c8944/4ccea6ad-abcd/"
    Endpoint.objects.create(channel="apprise", target=url, name="ops")
    relay()
    (_, _, text), shown = chatting[0], pause_of(paused).shown_id
    assert f"approve {shown}" in text and "Plan 1" in text
