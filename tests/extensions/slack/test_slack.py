"""Slack: buttons and forms answer as the person whose account was connected, and as nobody else."""

from __future__ import annotations

import datetime as dt
import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError
from django.test import Client
from django.utils import timezone

from extensions.slack import modals, posting, signing
from hitl.channels import accounts
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import ChatAccount, ChatCode, Decision, Via
from hitl.models.outbound import Delivery, Endpoint
from hitl.operations.doctor import setup
from hitl.outbound import endpoints
from runs.models import Pause
from runs.workflows.wait_for_input import wait_for_input
from tests.conftest import drive, fresh, pause_of
from tests.databases.whole import rows
from tests.worlds.mailing import later, relay
from tests.worlds.mailing import receiver as receiver
from tests.worlds.scripted_step import order_that as order_that

pytestmark = pytest.mark.django_db
DOOR = "/api/v1/channels/slack"
SECRET, TOKEN = "8f742231b10e8888abcd99yyyzzz85a5", "xoxb-not-a-real-token"
TEAM, WHO, CHANNEL = "T1DC2JH3J", "U2CERLKJA", "C0123ABCD"
EXAMPLE = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&"
    b"channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&"
    b"command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2F"
    b"T1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&"
    b"trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)
"""The request that Slack's documentation signs, with its figures."""
SIGNED = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
AT = "1531420618"


@dataclass
class Api:
    """What Slack was called with."""

    url: str = ""
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    says: dict[str, Any] = field(default_factory=lambda: {"ok": True, "channel": "C1", "ts": "1.5"})
    status: int = 200

    def to(self, name):
        return [body for path, body in self.calls if path.endswith(name)]

    def whispers(self):
        return [body["text"] for path, body in self.calls if path.startswith("/reply")]


@pytest.fixture
def api(receiver, settings):
    made = Api(receiver.url.partition("/hook")[0])

    def answer(handler):
        made.calls.append((handler.path, json.loads(receiver.got[-1][1])))
        handler.send_response(made.status)
        body = json.dumps(made.says).encode()
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    receiver.answer = answer
    settings.WAYSTATION_SLACK_API = f"{made.url}/api"
    settings.WAYSTATION_SLACK_SIGNING_SECRET, settings.WAYSTATION_SLACK_TOKEN = SECRET, TOKEN
    return made


@pytest.fixture
def asked(api, paused):
    """The question stands in a channel, with buttons."""
    Endpoint.objects.create(channel="slack", target=CHANNEL, name="ops")
    relay()
    return paused


@pytest.fixture
def ben_there(ben):
    ChatAccount.objects.create(service="slack", team=TEAM, account=WHO, user=ben)
    return ben


def post(body, *, secret=SECRET, at=None, signature=""):
    stamp = str(int((at or timezone.now()).timestamp()))
    headers = {
        signing.TIMESTAMP: stamp,
        signing.SIGNATURE: signature or signing.sign(secret, stamp, body),
    }
    return Client().post(
        DOOR, body, content_type="application/x-www-form-urlencoded", headers=headers
    )


def sent(payload, **how):
    return post(urlencode({"payload": json.dumps(payload)}).encode(), **how)


def press(api, name="approve", *, pause=None, revision=1, who=WHO, value="", **how):
    """What Slack sends of a button that somebody pressed."""
    shown = (pause or Pause.objects.latest("id")).shown_id
    action = {"action_id": name if name == "connect" else f"answer:{name}", "type": "button"}
    payload = {
        "type": "block_actions", "trigger_id": "1.2.3", "team": {"id": TEAM},
        "user": {"id": who, "team_id": TEAM, "username": "ben"},
        "response_url": f"{api.url}/reply/1",
        "actions": [{**action, "value": value or f"{shown} {revision}"}],
    }  # fmt: skip
    answer = sent(payload, **how)
    assert (answer.status_code, answer.json()) == (200, {})


def submit(view, values, *, who=WHO):
    """What Slack sends of a form that was filled in."""
    state = {"values": {name: {"entry": value} for name, value in values.items()}}
    payload = {
        "type": "view_submission", "user": {"id": who, "team_id": TEAM},
        "view": {**view, "state": state},
    }  # fmt: skip
    answer = sent(payload)
    assert answer.status_code == 200
    return answer.json()


def shown(answer):
    assert answer["response_action"] == "update"
    return answer["view"]["blocks"][0]["text"]["text"]


def test_slacks_own_example_is_signed_as_slack_signs_it(settings, db):
    """The vector of docs.slack.dev, "Verifying requests from Slack"."""
    assert signing.sign(SECRET, AT, EXAMPLE) == SIGNED
    then = dt.datetime.fromtimestamp(int(AT), dt.UTC)
    good: dict[str, Any] = {"timestamp": AT, "signature": SIGNED, "body": EXAMPLE}
    assert signing.is_genuine(SECRET, **good, now=then + dt.timedelta(minutes=5))
    assert not signing.is_genuine(SECRET, **good, now=then + dt.timedelta(minutes=5, seconds=1))
    assert not signing.is_genuine(SECRET, **good, now=then - dt.timedelta(minutes=6))
    assert not signing.is_genuine("", **good, now=then)
    for wrong in ({"body": EXAMPLE + b"x"}, {"signature": SIGNED[:-1] + "4"}, {"signature": "ä"},
                  {"timestamp": "1531420619"}, {"timestamp": "٣"}, {"timestamp": ""}):  # fmt: skip
        assert not signing.is_genuine(SECRET, **{**good, **wrong}, now=then)


def test_what_slack_did_not_sign_is_not_read(asked, ben_there, api, settings):
    body = urlencode({"payload": json.dumps({"type": "block_actions"})}).encode()
    before = rows()
    old = timezone.now() - dt.timedelta(minutes=6)
    answers = [
        post(body, secret="another"), post(body, at=old), post(body, signature="v0=x"),
        Client().post(DOOR, body, content_type="application/x-www-form-urlencoded"),
    ]  # fmt: skip
    settings.WAYSTATION_SLACK_SIGNING_SECRET = ""
    answers.append(post(body, secret=""))
    for answer in answers:
        assert (answer.status_code, answer.json()["code"]) == (401, "signature_invalid")
        assert SECRET not in answer.content.decode()
    assert Client().get(DOOR).status_code == 405
    settings.WAYSTATION_SLACK_SIGNING_SECRET = SECRET
    for strange in (b"", b"payload=[]", b"payload={}", b"a=b"):
        assert post(strange).status_code == 200
    for wrong in (b"payload={", b"\xff", b"&".join([b"a=1"] * 30)):
        assert post(wrong).status_code == 400
    assert rows() == before


@pytest.mark.both_databases
def test_a_button_answers_and_the_message_loses_its_buttons(asked, ben_there, api):
    """S3-22, F18: the press is seen by whoever pressed, and the message says who answered what."""
    posted = api.to("chat.postMessage")[0]
    assert posted["channel"] == CHANNEL
    names = [one.get("action_id") for one in posted["blocks"][-1]["elements"]]
    assert names == ["answer:approve", "answer:revise", "look"]
    assert "Plan 1" in json.dumps(posted["blocks"]) and "mrkdwn" not in json.dumps(posted)
    press(api)
    decision = Decision.objects.get()
    assert (decision.action, decision.decided_by, decision.via, decision.revision) == (
        "approve", ben_there, Via.SLACK, 1,
    )  # fmt: skip
    relay()
    changed = api.to("chat.update")
    assert [(one["channel"], one["ts"]) for one in changed] == [("C1", "1.5")]
    assert "Ben answered “Approve”" in json.dumps(changed[0]["blocks"], ensure_ascii=False)
    assert "answer:" not in json.dumps(changed[0])
    assert api.whispers() == ["“Approve” was recorded as your answer."]
    assert fresh(asked).latest_run.status == "pending"


def test_ones_own_message_loses_its_buttons_too(api, paused, ben_there):
    """Whoever answered is told nothing by mail; but their buttons go, wherever they answered."""
    endpoints.make(ben_there, channel="slack", target=WHO)
    relay()
    assert api.to("chat.postMessage")[0]["channel"] == WHO
    services.decide(pause_of(paused).pk, Answer("approve", Via.PAGE), by=ben_there)
    relay()
    assert len(api.to("chat.update")) == 1


@pytest.mark.parametrize("error", ["message_not_found", "edit_window_closed"])
def test_what_became_of_a_question_is_posted_where_its_message_cannot_be_changed(
    asked, api, ana, error
):
    """It was given up: a channel whose message somebody had deleted heard nothing."""
    services.decide(pause_of(asked).pk, Answer("approve", Via.PAGE), by=ana)
    posted, calls = dict(api.says), api.calls
    api.says = {"ok": False, "error": error}
    real = posting.call

    def call(method, body, **how):
        try:
            return real(method, body, **how)
        finally:
            api.says = posted

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(posting, "call", call)
        relay()
    assert [path.rpartition("/")[2] for path, _ in calls][-2:] == [
        "chat.update",
        "chat.postMessage",
    ]
    settled = json.dumps(calls[-1][1]["blocks"], ensure_ascii=False)
    assert "answered “Approve”" in settled and "answer:" not in settled
    assert not Delivery.objects.filter(status="dead").exists()


def test_a_question_that_was_answered_elsewhere_is_settled_in_slack_too(asked, ben_there, api, ana):
    """F18: also for who presses an old message, or one of an earlier revision."""
    pause = pause_of(asked)
    services.decide(pause.pk, Answer("revise", Via.PAGE, feedback="shorter"), by=ana)
    drive(asked)
    relay()
    assert len(api.to("chat.update")) == 1 and len(api.to("chat.postMessage")) == 2
    press(api, pause=pause)
    press(api, "revise", pause=pause)
    press(api, revision=1)
    relay()
    said = api.whispers()
    assert len(said) == 3 and "Already sent back for revision by Ana" in said[0]
    assert "revision 2" in said[2]
    assert Decision.objects.filter(via=Via.SLACK).count() == 0
    assert not api.to("views.open")


@pytest.mark.both_databases
def test_a_request_that_comes_again_does_nothing_twice(asked, ben_there, api):
    at = timezone.now()
    for _ in range(3):
        press(api, at=at)
    assert Decision.objects.count() == 1
    assert Delivery.objects.filter(occasion="replied").count() == 1
    press(api, at=at - dt.timedelta(seconds=1))
    assert Decision.objects.count() == 1


def test_who_is_not_connected_is_told_how_and_connects_by_a_code(asked, ben, api, page, ana):
    """The code is shown once on one's own page, is good once, and for ten minutes."""
    press(api)
    assert not Decision.objects.exists()
    row = Delivery.objects.get(occasion="replied")
    assert (row.recipient, row.to) == (None, "somebody in Slack")
    relay()
    assert "Menu &gt; Notifications" in api.whispers()[0]
    whisper = next(body for path, body in api.calls if path.startswith("/reply"))
    assert whisper["response_type"] == "ephemeral"
    assert whisper["blocks"][-1]["elements"][0]["action_id"] == "connect"
    press(api, "connect")
    view = api.to("views.open")[0]["view"]
    browser = Client()
    browser.force_login(ben)
    before = rows()
    assert browser.get("/notifications/chats").status_code == 200
    assert rows() == before
    response = browser.post("/notifications/chats", {"do": "code"})
    assert response["Cache-Control"] == "no-store"
    code = re.findall(r"<code>([A-Z2-7]{4}(?:-[A-Z2-7]{4}){3})</code>", response.content.decode())[
        0
    ]
    assert code.replace("-", "") not in str(list(ChatCode.objects.values()))
    for wrong in ("", "AAAA-BBBB-CCCC-DDDD"):
        assert "code" in submit(view, {"code": {"value": wrong}})["errors"]
    assert "Ben" in shown(submit(view, {"code": {"value": code.lower()}}))
    assert "code" in submit(view, {"code": {"value": code}}, who="U0EVE")["errors"]
    press(api)
    assert Decision.objects.get().decided_by == ben
    listed = browser.get("/notifications/chats").content.decode()
    assert WHO in listed
    key = ChatAccount.objects.get().pk
    page.post("/notifications/chats", {"account": key})
    assert ChatAccount.objects.exists(), "of somebody else"
    browser.post("/notifications/chats", {"account": key})
    assert not ChatAccount.objects.exists()
    old = accounts.new_code(ben)
    ChatCode.objects.update(expires_at=timezone.now())
    assert accounts.connect("slack", TEAM, WHO, old) is None
    first, second = accounts.new_code(ben), accounts.new_code(ben)
    assert accounts.connect("slack", TEAM, WHO, first) is None
    ben.is_active = False
    ben.save()
    assert accounts.connect("slack", TEAM, WHO, second) is None


@pytest.mark.both_databases
def test_an_account_is_one_persons(ben_there, ana):
    with pytest.raises(IntegrityError, match=r"UNIQUE|chat_account_is_one_persons"):
        ChatAccount.objects.create(service="slack", team=TEAM, account=WHO, user=ana)


@pytest.mark.parametrize("who", ["stranger", "switched off", "another workspace"])
def test_the_wrong_account_decides_nothing(asked, ben_there, api, who, zoe):
    if who == "stranger":
        ChatAccount.objects.update(user=zoe)
    elif who == "switched off":
        User.objects.filter(pk=ben_there.pk).update(is_active=False)
    else:
        ChatAccount.objects.update(team="T0OTHER00")
    press(api)
    assert not Decision.objects.exists()
    relay()
    assert len(api.whispers()) == 1 and "Nothing was decided" in api.whispers()[0]


@pytest.mark.parametrize(
    "change", [{"review": {"risk": "high"}}, {"content": "x" * 3_001}, {"question": "q" * 151}]
)
def test_what_cannot_be_seen_whole_is_answered_on_its_page(api, paused, ben_there, change):
    """High risk never; nor a text that Slack would cut, nor a question that it would."""
    Endpoint.objects.create(channel="slack", target=CHANNEL, name="ops")
    Pause.objects.update(**change)
    relay()
    assert "answer:" not in json.dumps(api.to("chat.postMessage"))
    press(api)
    press(api, "revise")
    assert not Decision.objects.exists() and not api.to("views.open")
    relay()
    assert all("page" in said and "Nothing was decided" in said for said in api.whispers())


def test_a_form_takes_the_feedback(asked, ben_there, ana, api):
    press(api, "revise")
    view = api.to("views.open")[0]["view"]
    assert api.to("views.open")[0]["trigger_id"] == "1.2.3"
    assert submit(view, {"feedback": {"value": "  "}})["response_action"] == "errors"
    # what is refused for a while keeps the form, with what was typed; before, it was gone
    Pause.objects.update(claimed_by=ana, claimed_until=timezone.now() + dt.timedelta(minutes=5))
    for_now = submit(view, {"feedback": {"value": "shorter"}})
    assert for_now["response_action"] == "errors" and "claimed" in for_now["errors"]["feedback"]
    Pause.objects.update(claimed_by=None, claimed_until=None)
    assert "recorded" in shown(submit(view, {"feedback": {"value": "shorter"}}))
    decision = Decision.objects.get()
    assert (decision.action, decision.feedback, decision.via) == ("revise", "shorter", Via.SLACK)
    assert "Already" in shown(submit(view, {"feedback": {"value": "shorter"}}))
    assert "does not know" in shown(submit(view, {"feedback": {"value": "x"}}, who="U0EVE"))
    forged = {**view, "private_metadata": json.dumps(["pse_x", 1, "approve"])}
    assert "not there" in shown(submit(forged, {}))
    assert "not there" in shown(submit({**view, "private_metadata": "{"}, {}))


SCHEMA = {
    "type": "object",
    "properties": {
        "vat": {"type": "string", "title": "VAT id", "minLength": 4},
        "rate": {"type": "integer"},
        "kind": {"enum": ["goods", "service"]},
        "tags": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": True},
        "paid": {"type": "boolean"},
        "on": {"type": "string", "format": "date"},
    },
    "required": ["vat", "kind"],
}


@pytest.fixture
def asking(order_that, api, ben_there):
    def ask(schema):
        order = drive(
            order_that(
                lambda state, context: wait_for_input(
                    state, context, required_inputs=schema, blocking_reason="x", question="Which?"
                )
            )
        )
        Endpoint.objects.create(channel="slack", target=CHANNEL, name="ops")
        relay()
        return order

    return ask


def test_a_form_takes_the_data_that_is_asked_for(asking, api, ben_there):
    """S3-33: what does not fit is told at its entry, and counted; the question stays open."""
    order = asking(SCHEMA)
    press(api, "answer")
    view = api.to("views.open")[0]["view"]
    inputs = {one["block_id"]: one for one in view["blocks"] if one["type"] == "input"}
    assert {name: one["element"]["type"] for name, one in inputs.items()} == {
        "input.vat": "plain_text_input", "input.rate": "plain_text_input",
        "input.kind": "static_select", "input.tags": "multi_static_select",
        "input.paid": "static_select", "input.on": "datepicker",
    }  # fmt: skip
    assert [name for name, one in inputs.items() if not one["optional"]] == [
        "input.vat", "input.kind",
    ]  # fmt: skip
    given = {
        "input.vat": {"value": "DE1"}, "input.rate": {"value": "19"},
        "input.kind": {"selected_option": {"value": "1"}},
        "input.tags": {"selected_options": [{"value": "0"}, {"value": "2"}]},
        "input.paid": {"selected_option": {"value": "0"}},
        "input.on": {"selected_date": "2026-11-25"},
    }  # fmt: skip
    refused = submit(view, given)
    assert refused["response_action"] == "errors" and list(refused["errors"]) == ["input.vat"]
    assert pause_of(order).attempts == 1
    given["input.vat"] = {"value": "DE123"}
    assert "recorded" in shown(submit(view, given))
    decision = Decision.objects.get()
    assert decision.payload == {
        "vat": "DE123", "rate": 19, "kind": "service", "tags": ["a", "c"], "paid": True,
        "on": "2026-11-25",
    }  # fmt: skip
    assert decision.decided_by == ben_there


def test_a_form_that_slack_has_no_entries_for_is_filled_in_on_the_page(asking, api):
    lines = {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}
    asking({"type": "object", "properties": {"lines": lines}, "required": ["lines"]})
    press(api, "answer")
    relay()
    assert not api.to("views.open") and "Answer on its page" in api.whispers()[0]


def test_a_form_that_does_not_open_leaves_a_way(asked, ben_there, api):
    api.says = {"ok": False, "error": "expired_trigger_id"}
    press(api, "revise")
    api.says = {"ok": True}
    relay()
    assert "Answer on its page" in api.whispers()[0]


@pytest.mark.parametrize(
    ("status", "says", "left"),
    [
        (429, {}, "queued"), (500, {}, "queued"),
        (200, {"ok": False, "error": "ratelimited"}, "queued"),
        (200, {"ok": False, "error": "invalid_auth"}, "queued"),
        (200, {"ok": False, "error": "channel_not_found"}, "dead"), (404, {}, "dead"),
    ],
)  # fmt: skip
def test_slack_that_refuses_is_tried_again_where_that_helps(api, paused, status, says, left):
    """F13: by rows; the token is in no error."""
    Endpoint.objects.create(channel="slack", target=CHANNEL, name="ops")
    api.status, api.says = status, says
    relay()
    row = Delivery.objects.get(channel="slack")
    assert row.status == left and row.error and TOKEN not in row.error
    if left == "queued":
        api.status, api.says = 200, {"ok": True, "channel": "C1", "ts": "1.5"}
        later()
        relay()
        row.refresh_from_db()
        assert (row.status, row.kept_as) == ("sent", "C1 1.5")


def test_answers_go_to_slack_alone(asked, ben_there, api, settings):
    """SSRF: also where what was signed names another host."""
    settings.WAYSTATION_OUTBOUND_ALLOW = []
    for url in (
        "http://127.0.0.1:1/x",
        "https://hooks.slack.com.evil.example/x",
        "",
        "file:///etc",
    ):
        Delivery.objects.filter(occasion="replied").delete()
        press(api)
        Delivery.objects.filter(occasion="replied").update(contact=url)
        calls = len(api.calls)
        relay()
        assert Delivery.objects.get(occasion="replied").status == "dead" and len(api.calls) == calls


def test_who_may_have_what_written_where(api, ana, ben_there, settings):
    """In the company's name nobody writes to others' places."""
    for by, target in ((ana, WHO), (ana, CHANNEL), (ben_there, CHANNEL), (ben_there, "no id")):
        with pytest.raises(endpoints.EndpointInvalid):
            endpoints.make(by, channel="slack", target=target)
    made, _ = endpoints.make(ben_there, channel="slack", target=WHO)
    assert made.name == ""
    settings.WAYSTATION_SLACK_TOKEN = ""
    with pytest.raises(endpoints.EndpointInvalid, match="not set up"):
        endpoints.make(ben_there, channel="slack", target=WHO)


def test_texts_are_no_markup(asked, api):
    """A title that mentions everybody mentions nobody."""
    Pause.objects.update(question="<!channel> *now* & here")
    Delivery.objects.filter(channel="slack").update(status="queued", sent_at=None)
    relay()
    body = api.to("chat.postMessage")[-1]
    assert "&lt;!channel&gt;" in body["text"]
    assert {one["text"]["type"] for one in body["blocks"] if "text" in one} == {"plain_text"}
    assert modals.asked_by({"private_metadata": "[1]"}) is None


def test_the_doctor_says_what_is_half_set_up(settings):
    def said():
        return " ".join(finding.words for finding in setup.channels())

    assert said() == ""
    settings.WAYSTATION_SLACK_TOKEN, settings.WAYSTATION_REPLY_SECRETS = TOKEN, ["x"]
    assert "one is missing" in said() and "no mail asks" in said() and TOKEN not in said()
    settings.WAYSTATION_REPLY_ADDRESS, settings.WAYSTATION_REPLY_SECRETS = "@x.example", []
    assert "nobody reads replies" in said()


KNOWN = {
    "when": "2026-02-28",
    "at": "2026-10-25T02:30:00+01:00",
    "sure": True,
    "colour": "green",
    "sizes": ["l"],
    "name": " Ana",
    "parts": 5.0,
}
WANTED = {
    "when": {"type": "string", "format": "date"},
    "at": {"type": "string", "format": "date-time"},
    "sure": {"type": "boolean", "default": False},
    "colour": {"enum": ["red", "green"]},
    "sizes": {"type": "array", "items": {"enum": ["s", "l"]}},
    "name": {"type": "string"},
    "parts": {"type": "integer"},
}


def test_a_form_in_slack_that_nobody_touched_sends_what_was_known(settings):
    """Tried after camunda#21346; a text that Slack would cut is for the page."""
    settings.TIME_ZONE = "Europe/Berlin"
    asked = {"type": "object", "properties": WANTED, "required": sorted(WANTED)}
    pause = Pause(required_inputs=asked, known=KNOWN, answers={"answer": "finish"}, question="?")
    view = modals.form_for(pause, modals.Asked("p", 1, "answer"))
    assert view is not None
    sent = {
        "initial_value": "value",
        "initial_date": "selected_date",
        "initial_option": "selected_option",
        "initial_options": "selected_options",
    }
    values = {
        block["block_id"]: {
            modals.ENTRY: {
                sent[name]: value
                for name, value in block["element"].items()
                if name.startswith("initial")
            }
        }
        for block in view["blocks"]
        if block["type"] == "input"
    }
    assert modals.payload_in({"state": {"values": values}}, pause) == KNOWN
    pause.known = {**KNOWN, "name": "x" * 3_001}
    assert modals.form_for(pause, modals.Asked("p", 1, "answer")) is None


def test_a_form_in_slack_names_what_a_screen_does_not_show():
    """Before: a form's question, labels and choices could be read otherwise than they are."""
    odd = "Pay \u202etxt\u200b"
    asked = {
        "type": "object",
        "properties": {"a": {"title": odd, "description": odd, "enum": [odd]}},
    }
    pause = Pause(required_inputs=asked, answers={"answer": "finish"}, question=odd)
    view = modals.form_for(pause, modals.Asked("p", 1, "answer"))
    told = json.dumps(view, ensure_ascii=False)
    assert told.count("Pay ⟦U+202E⟧txt⟦U+200B⟧") == 4 and "\u202e" not in told
