"""Telegram: buttons answer as the person whose account was connected, and as nobody else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from checkpoints.state import codec
from hitl.channels import accounts
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import ChatAccount, ChatCode, Decision, IdempotencyKey, Via
from hitl.models.outbound import Delivery, Endpoint
from hitl.operations.doctor import setup
from hitl.outbound import endpoints
from runs.models import Pause
from runs.workflows.wait_for_input import wait_for_input
from tests.conftest import drive, fresh, pause_of
from tests.databases.undone import undone
from tests.databases.whole import rows
from tests.extensions.telegram.bot import (
    BEN,
    CHAT,
    DOOR,
    GROUP,
    SECRET,
    TOKEN,
    Bot,
    deliver,
    press,
    pressed,
    refusal,
    write,
)
from tests.worlds.mailing import later, relay
from tests.worlds.mailing import receiver as receiver
from tests.worlds.scripted_step import order_that as order_that

pytestmark = pytest.mark.django_db


@pytest.fixture
def bot(receiver, settings):
    settings.WAYSTATION_TELEGRAM_API = receiver.url.partition("/hook")[0] + "/api"
    settings.WAYSTATION_TELEGRAM_TOKEN, settings.WAYSTATION_TELEGRAM_SECRET = TOKEN, SECRET
    return Bot(receiver)


@pytest.fixture
def ben_there(ben):
    ChatAccount.objects.create(service="telegram", team="telegram", account=str(BEN), user=ben)
    return ben


@pytest.fixture
def asked(bot, paused, ben_there):
    """The question stands in Ben's own chat, with buttons."""
    endpoints.make(ben_there, channel="telegram", target=CHAT)
    relay()
    return paused


def test_what_has_not_the_secret_token_is_not_read(asked, bot, settings):
    before = rows()
    answers = [deliver(b"{", secret=wrong) for wrong in (None, "", "another", "ä", SECRET[:-1])]
    settings.WAYSTATION_TELEGRAM_SECRET = ""
    answers += [deliver(b"{}", secret=""), deliver(b"{}", secret=None)]
    for answer in answers:
        assert (answer.status_code, answer.json()["code"]) == (401, "signature_invalid")
        assert SECRET not in answer.content.decode()
    assert Client().get(DOOR).status_code == 405
    assert rows() == before


NONSENSE = [
    b"[]", b"{}", b'"x"', b'{"message": 1}', b'{"callback_query": {"from": []}}',
    b'{"edited_message": {"text": "/start AAAA"}}', b'{"message": {"chat": {"type": 1}}}',
    b'{"callback_query": {"id": 7, "data": {}, "from": {"id": {"a": 1}, "is_bot": false}}}',
    b'{"update_id": 1, "channel_post": {"chat": {"id": -1, "type": "channel"}}}',
]  # fmt: skip


def test_nonsense_changes_nothing_and_is_no_error(asked, subtests):
    """What is no 2xx is sent again for hours, and holds up what comes after."""
    before = rows()
    for update in NONSENSE:
        with subtests.test(ascii(update)):
            assert deliver(update).status_code == 200
            assert rows() == before
    assert deliver(b"{").status_code == 400


@pytest.mark.both_databases
def test_a_button_answers_and_the_message_loses_its_buttons(asked, bot, ben_there):
    """S3-22, F18: the press is answered at once, and the message says who answered what."""
    sent = bot.to("sendMessage")[0]
    assert sent["chat_id"] == BEN and "Plan 1" in sent["text"] and "parse_mode" not in sent
    assert sent["link_preview_options"] == {"is_disabled": True}
    assert list(bot.buttons()) == ["Approve"], "what takes words is answered by the link"
    assert "http" in sent["text"]
    alert = press(bot.buttons()["Approve"])
    assert alert == {
        "method": "answerCallbackQuery",
        "callback_query_id": "4382bfdwdsb323b2d1",
        "text": "“Approve” was recorded as your answer.",
        "show_alert": True,
    }
    decision = Decision.objects.get()
    assert (decision.action, decision.decided_by, decision.via, decision.revision) == (
        "approve", ben_there, Via.TELEGRAM, 1,
    )  # fmt: skip
    relay()
    (edited,) = bot.to("editMessageText")
    assert (edited["chat_id"], edited["message_id"]) == (BEN, 1)
    assert "Ben answered “Approve”" in edited["text"]
    assert edited["reply_markup"] == {"inline_keyboard": []}
    assert fresh(asked).latest_run.status == "pending"


@pytest.mark.both_databases
def test_an_update_that_is_delivered_again_gets_the_first_ones_answer(asked, bot):
    first = deliver(pressed(bot.buttons()["Approve"]))
    again = [deliver(pressed(bot.buttons()["Approve"])) for _ in range(2)]
    assert [answer.json() for answer in again] == [first.json()] * 2
    assert Decision.objects.count() == 1
    assert "Already approved by Ben" in press(bot.buttons()["Approve"], number=2)["text"]
    assert IdempotencyKey.objects.exists() and Decision.objects.count() == 1


def test_a_press_on_an_old_message_is_refused_with_words_and_the_new_question(asked, bot, ana):
    """P6: what was shown is what is approved."""
    old = bot.buttons()["Approve"]
    services.decide(
        pause_of(asked).pk, Answer("revise", Via.PAGE, feedback="shorter"), by=ana
    )  # the next revision comes
    drive(asked)
    relay()
    assert len(bot.to("sendMessage")) == 2 and len(bot.to("editMessageText")) == 1
    assert "Already sent back for revision by Ana" in press(old)["text"]
    relay()
    assert len(bot.to("sendMessage")) == 3, "the new question, below the old message"
    shown = pause_of(asked).shown_id.removeprefix("pse_")
    assert bot.buttons()["Approve"].startswith(f"{shown}.2.")
    press(old, number=2)
    relay()
    assert len(bot.to("sendMessage")) == 3, "once"
    forged = bot.buttons()["Approve"].replace(".2.", ".1.")
    assert "revision 2" in press(forged, number=3)["text"]
    assert not Decision.objects.filter(via=Via.TELEGRAM).exists()
    assert "recorded" in press(bot.buttons()["Approve"], number=4)["text"]
    assert Decision.objects.get(via=Via.TELEGRAM).revision == 2


def test_who_is_not_connected_is_told_how_and_connects_by_a_code(bot, paused, ben, subtests):
    """The username that Telegram tells counts for nothing."""
    for text in ("hello", "/start", "/help", "/connect", "approve"):
        with subtests.test(text):
            said = write(text)
            assert (said["method"], said["chat_id"]) == ("sendMessage", BEN)
            assert "/connect, and the code" in said["text"]
    Endpoint.objects.create(channel="telegram", target=str(GROUP), name="ops")
    relay()
    data = bot.buttons()["Approve"]
    assert "do not know yet who you are" in press(data, chat=GROUP)["text"]
    code = accounts.new_code(ben)
    assert "code is not valid now" in write("/connect AAAA-BBBB-CCCC-DDDD")["text"]
    said = write(f"/start {code.lower()}")["text"]
    assert "answer here as Ben" in said and CHAT in said
    assert "code is not valid now" in write(f"/connect {code}", who=8)["text"]
    assert not ChatCode.objects.exists()
    account = ChatAccount.objects.get()
    assert (account.service, account.account, account.user) == ("telegram", CHAT, ben)
    assert str(account) == "Telegram 1001"
    assert "Press an answer" in write("approve")["text"]
    assert "recorded" in press(data, chat=GROUP, number=2)["text"]
    assert Decision.objects.get().decided_by == ben
    assert "Press an answer" in write("hello again")["text"]


def test_a_group_is_nobody(bot, paused, ben):
    """A code told there is everybody's; and what people say to each other is not answered."""
    Endpoint.objects.create(channel="telegram", target=str(GROUP), name="ops")
    relay()
    code, before = accounts.new_code(ben), rows()
    for text in (f"/connect {code}", f"/start@bot {code}", "approve", "hello"):
        assert write(text, chat=GROUP) == {}
    anonymous = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "x"}
    # a superuser had them connected as if they were a person
    for account in (GROUP, anonymous["id"]):
        ChatAccount.objects.create(
            service="telegram", team="telegram", account=str(account), user=ben
        )
    before = rows()
    as_group: dict[str, Any] = {"sender_chat": {"id": GROUP}, "from": anonymous}
    assert write("approve", chat=GROUP, **as_group) == {}
    update = pressed(bot.buttons()["Approve"], chat=GROUP)
    update["callback_query"]["from"] = anonymous
    assert "do not know" in deliver(update).json()["text"]
    assert rows() == before


def test_what_a_press_carries_is_judged_when_it_comes(asked, bot, subtests):
    shown, revision, digest = bot.buttons()["Approve"].split(".")
    carried = [
        "", "x", f"{shown}.x.{digest}", f"{shown}.1", f"{'0' * 26}.1.{digest}", "ä.1.x",
        f"{shown}.{revision}.{'0' * 12}", f"{shown}.99999999999.{digest}", f"{shown}.2.{digest}",
    ]  # fmt: skip
    for number, data in enumerate(carried):
        with subtests.test(ascii(data)[:40]):
            said = press(data, number=number)
            assert said["method"] == "answerCallbackQuery" and len(said["text"]) <= 200
            assert not Decision.objects.exists()


@pytest.mark.parametrize("change", ["risk", "long", "astral"])
def test_what_cannot_be_seen_whole_is_answered_by_its_link(bot, paused, ben_there, change):
    """High risk never; nor what Telegram would cut, which counts units of UTF-16."""
    content = {"long": "x" * 3_001, "astral": "\U0001f680" * 2_900}
    Endpoint.objects.create(channel="telegram", target=CHAT, name="ops")
    if change == "risk":
        Pause.objects.update(review={"risk": "high"})
    else:
        Pause.objects.update(content=content[change])
    relay()
    assert bot.buttons() == {} and bot.messages
    sent = bot.to("sendMessage")[0]["text"]
    assert len(sent.encode("utf-16-le")) <= 8192
    if change != "astral":
        pause = Pause.objects.get()
        data = f"{pause.shown_id.removeprefix('pse_')}.1.{codec.digest('approve')}"
        assert "Answer on its page" in press(data[:41])["text"]
    assert not Decision.objects.exists()


def test_what_takes_data_is_answered_by_its_link(bot, order_that, ben_there):
    schema = {"type": "object", "properties": {"vat": {"type": "string"}}, "required": ["vat"]}
    drive(
        order_that(
            lambda state, context: wait_for_input(
                state, context, required_inputs=schema, blocking_reason="x", question="Which?"
            )
        )
    )
    Endpoint.objects.create(channel="telegram", target=CHAT, name="ops")
    relay()
    assert bot.buttons() == {} and "http" in bot.to("sendMessage")[0]["text"]


@pytest.mark.parametrize(
    ("refused", "left"),
    [
        (refusal(429, "Too Many Requests: retry after 3600", retry_after=3600), "queued"),
        (refusal(429, "Too Many Requests", retry_after=10**30), "queued"),
        (refusal(500, "Internal Server Error"), "queued"),
        (refusal(401, "Unauthorized"), "queued"),
        (refusal(404, "Not Found"), "queued"),
        (refusal(403, "Forbidden: bot was blocked by the user"), "dead"),
        (refusal(400, "Bad Request: chat not found"), "dead"),
    ],
)
def test_telegram_that_refuses_is_tried_again_where_that_helps(bot, paused, refused, left, caplog):
    """F13: by rows; the token is in no error and no line of the log."""
    caplog.set_level("DEBUG")
    Endpoint.objects.create(channel="telegram", target=CHAT, name="ops")
    bot.refuses = {**refused, "description": f"{refused['description']} {TOKEN}"}
    relay()
    row = Delivery.objects.get(channel="telegram")
    assert (row.status, row.to) == (left, "ops (everybody)")
    assert refused["description"] in row.error and TOKEN not in row.error + caplog.text
    if "parameters" in refused:
        assert (row.next_at - timezone.now()).total_seconds() > 3500
    if left == "queued":
        bot.refuses = {}
        later()
        relay()
        row.refresh_from_db()
        assert (row.status, row.kept_as) == ("sent", "1001 1")


def test_a_token_that_is_none_goes_nowhere(bot, paused, settings, subtests):
    Endpoint.objects.create(channel="telegram", target=CHAT, name="ops")
    for token in ("", "nonsense", "1:a/../b", f"{TOKEN}?x"):
        with subtests.test(token), undone():
            settings.WAYSTATION_TELEGRAM_TOKEN = token
            relay()
            row = Delivery.objects.get(channel="telegram")
            assert row.status == "queued" and not bot.receiver.got
            assert token == "" or token not in row.error


def test_a_private_address_is_refused(bot, paused, settings):
    Endpoint.objects.create(channel="telegram", target=CHAT, name="ops")
    settings.WAYSTATION_OUTBOUND_ALLOW = []
    relay()
    row = Delivery.objects.get(channel="telegram")
    assert row.status == "dead" and not bot.receiver.got and TOKEN not in row.error


@pytest.mark.parametrize("happens", ["too old", "deleted", "shows it already"])
def test_a_message_that_cannot_be_changed_is_followed_by_a_new_one(asked, bot, ana, happens):
    services.decide(pause_of(asked).pk, Answer("approve", Via.PAGE), by=ana)
    if happens == "too old":
        bot.changes = False
    elif happens == "deleted":
        bot.messages.clear()
    relay()
    if happens == "shows it already":
        Delivery.objects.filter(occasion="answered").update(status="queued", sent_at=None)
        later()
        relay()
        assert len(bot.to("editMessageText")) == 2 and len(bot.to("sendMessage")) == 1
    else:
        assert "answered “Approve”" in bot.to("sendMessage")[-1]["text"]
    assert not Delivery.objects.exclude(status="sent").exists()


def test_texts_mention_nobody(asked, bot):
    Pause.objects.update(question="@everybody *now* ana@example.org", content="@ben")
    Delivery.objects.update(status="queued", sent_at=None)
    later()
    relay()
    sent = bot.to("sendMessage")[-1]["text"]
    assert "@\u2060everybody *now* ana@example.org" in sent and "@\u2060ben" in sent


def test_who_may_have_what_written_where(bot, ana, ben_there, settings):
    for by, target in ((ana, CHAT), (ana, str(GROUP)), (ben_there, str(GROUP)), (ben_there, "x")):
        with pytest.raises(endpoints.EndpointInvalid):
            endpoints.make(by, channel="telegram", target=target)
    endpoints.make(ben_there, channel="telegram", target=CHAT)
    settings.WAYSTATION_TELEGRAM_TOKEN = ""
    with pytest.raises(endpoints.EndpointInvalid, match="Telegram is not set up"):
        endpoints.make(ben_there, channel="telegram", target=CHAT)


def test_pages_offer_what_is_set_up_and_doctor_says_what_is_half(bot, ben, settings):
    browser = Client()
    browser.force_login(ben)
    assert "Telegram, with buttons" in browser.get("/notifications/").content.decode()
    chats = browser.post("/notifications/chats", {"do": "code"}).content.decode()
    assert "<dt>Telegram</dt>" in chats and "Write to the bot: /connect, and the code." in chats
    settings.WAYSTATION_TELEGRAM_TOKEN = ""
    assert "Telegram, with buttons" not in browser.get("/notifications/").content.decode()
    said = json.dumps([finding.words for finding in setup.channels()])
    assert "Telegram one is missing" in said and SECRET not in said
