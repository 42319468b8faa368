"""Every door at which one question can be answered, ended or disturbed, as one line each; and what
must hold when many go through at once.

To add a door, add a line to DOORS: `"link": Door(lambda at, who: ...)`. It gives `Told`: what
whoever stood there was told.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from io import StringIO
from typing import Any
from urllib.parse import urlencode

from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.auth.models import Group, Permission, User
from django.contrib.messages import get_messages
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from checkpoints.models import Event, Thread
from checkpoints.state import codec
from extensions.mail_replies import addresses
from extensions.slack import signing
from extensions.teams import channel as teams
from extensions.telegram import channel as telegram
from hitl.http.refusals import exception_handler
from hitl.live import socket_messages
from hitl.models import ApiToken, ChatAccount, Decision
from hitl.models.outbound import Delivery
from hitl.outbound import links, signatures
from runs.models import Pause, Run, WorkOrder
from runs.services import PauseClosed
from runs.states import PauseStatus
from tests.doors import langgraph
from tests.doors.mcp import called_here
from tests.worlds.deadlines import fire

FORM = "application/x-www-form-urlencoded"
SECRET = "whsec_" + "cmFjZXMtcmFjZXMtcmFjZXMtcmFjZXMtcmFjZXM="
"""Whoever hands over mails here signs with it."""


TEAMS_SECRET = base64.b64encode(SECRET.encode()).decode()


@dataclass(frozen=True)
class Question:
    """An open question of a work order, as the doors name it."""

    order: str
    thread: str
    run: str
    pause: str
    key: Any

    @classmethod
    def of(cls, pause: Pause) -> Question:
        order = pause.run.work_order
        assert order is not None
        return cls(
            order.shown_id, pause.run.thread.shown_id, pause.run.shown_id, pause.shown_id, pause.pk
        )


@dataclass
class Racer:
    """Somebody with a browser, a token and a shell, in the team and with the rights to answer in
    the admin.
    """

    user: User
    browser: Client
    program: Client


@dataclass(frozen=True)
class Told:
    """`done`: what was asked for was done.

    Else `words` must name who was first; `status` is 409 where there is one.
    """

    done: bool
    words: str
    status: int = 0


@dataclass(frozen=True)
class Door:
    go: Callable[[Question, Racer], Told]
    answers: bool = True
    """It answers the question.

    Otherwise it asks for something that may come before or after the answer: a retry, a suspension.
    """
    ends: bool = False
    """It ends the order: also after somebody else's answer, as a second act."""
    silent: bool = False
    """Nobody stands there whom anything could be told."""
    outside: bool = False
    """Whoever stands there has no account: is told that somebody was first, and when, not who."""


def page(at: Question, who: Racer, url: str, **body: str) -> Told:
    who.browser.cookies.pop("messages", None)  # of what was said before
    response = who.browser.post(url, body)
    told = said(response)
    return Told(
        response.status_code == 302 and (not told or told.startswith("You ")),
        response.content.decode() + told,
        response.status_code,
    )


def rest(at: Question, who: Racer, url: str, **body: Any) -> Told:
    response = who.program.post(f"/api/v1/{url}", json.dumps(body), content_type="application/json")
    return Told(response.status_code in {200, 201}, response.content.decode(), response.status_code)


def desk(at: Question, who: Racer, action: str, **fields: str) -> Told:
    body = {
        "action": action,
        ACTION_CHECKBOX_NAME: str(at.key),
        "confirmed": "1",
        f"revision_{at.pause}": "1",
        **fields,
    }
    who.browser.cookies.pop("messages", None)
    response = who.browser.post("/admin/runs/pause/", body)
    words = said(response)
    return Told(
        response.status_code == 302
        and ("approved" in words or "cancelled" in words)
        and "Already" not in words,
        words,
        response.status_code,
    )


def shell(at: Question, who: Racer, *words: str) -> Told:
    try:
        call_command("workorder", "--user", who.user.get_username(), *words, stdout=StringIO())
    except CommandError as refusal:
        return Told(False, str(refusal), 409)
    return Told(True, "")


def said(response: Any) -> str:
    return " ".join(str(message) for message in get_messages(response.wsgi_request))


def socket(at: Question, who: Racer) -> Told:
    """What a consumer does with a message; the sockets themselves are in
    tests/hitl/live/test_socket_answers.py.
    """
    header = who.program.defaults["HTTP_AUTHORIZATION"].encode()
    text = json.dumps(
        {"type": "decision", "pause_id": at.pause, "decision": "approve", "revision": 1}
    )
    scope = {"headers": [(b"authorization", header)], "subprotocols": []}
    reply = json.loads(
        socket_messages.answer(
            text, scope=scope, place=socket_messages.SocketTarget(), problem_of=exception_handler
        )
    )
    accepted = reply["type"] == "accepted"
    return Told(accepted, json.dumps(reply), 200 if accepted else reply["problem"]["status"])


def assistant(at: Question, who: Racer) -> Told:
    """An answer of their own assistant, by its tool."""
    digest = Pause.objects.values_list("content_digest", flat=True).get(pk=at.key)
    answer = {"question_id": at.pause, "decision": "approve", "revision": 1}
    status, words = called_here(
        who.program.defaults["HTTP_AUTHORIZATION"], "answer", {**answer, "content_digest": digest}
    )
    return Told(status == 200, words, status)


def graph_client(at: Question, who: Racer) -> Told:
    """An answer of a LangGraph client of theirs."""
    thread = Pause.objects.values_list("run__thread", flat=True).get(pk=at.key)
    status, words = langgraph.called_here(
        who.program.defaults["HTTP_AUTHORIZATION"],
        "POST",
        f"/threads/{thread}/runs",
        {"command": {"resume": {"decision": "approve", "revision": 1}}},
    )
    return Told(status == 200, words, status)


def link(at: Question, who: Racer, *, outside: bool = False) -> Told:
    """A link of their own, without a login: as the recipient, or as somebody without an account."""
    person = {"contact": outside_of(who.user)} if outside else {"recipient": who.user}
    path = links.url_of(_mailed(at, who, **person)).partition("/l/")[2]
    response = Client(raise_request_exception=False, SERVER_NAME="localhost").post(
        f"/l/{path}", {"action": "approve", "me": "yes"}
    )
    return Told(response.status_code == 200, response.content.decode(), response.status_code)


def _mailed(at: Question, who: Racer, **person: Any) -> Delivery:
    """A mail that asks one person."""
    now, place = timezone.now(), f"race:{who.user.pk}:{uuid.uuid4().hex}"
    delivery = Delivery.objects.create(
        pause_id=at.key,
        occasion="asked",
        channel="email",
        place=place,
        status="sent",
        sent_at=now,
        next_at=now,
        made_at=now,
        **person,
    )
    return Delivery.objects.select_related("pause").get(pk=delivery.pk)


def reply(at: Question, who: Racer) -> Told:
    """A reply to a mail of their own, handed over by who signs; what they are told is a mail."""
    User.objects.filter(pk=who.user.pk).update(email=f"{who.user.get_username()}@in.example")
    address = addresses.address_of(_mailed(at, who, recipient=who.user))
    body = f"From: {who.user.get_username()}@in.example\nTo: {address}\n\napprove\n".encode()
    signed = signatures.headers("race", int(timezone.now().timestamp()), body, [SECRET])
    response = Client(raise_request_exception=False, SERVER_NAME="localhost").post(
        "/api/v1/channels/mail", body, content_type="message/rfc822", headers=signed
    )
    if response.status_code != 200:
        return Told(False, response.content.decode(), response.status_code)
    words = Delivery.objects.filter(occasion="replied", recipient=who.user).latest("id").words
    done = response.json()["outcome"] in {"answered", "voted"}
    return Told(done, words, 200 if done else 409)


def slack(at: Question, who: Racer) -> Told:
    """A button that their account in Slack presses; what they are told is a message there."""
    _connect("slack", who)
    name, now = who.user.get_username(), str(int(timezone.now().timestamp()))
    action = {"action_id": "answer:approve", "value": f"{at.pause} 1"}
    payload = {
        "type": "block_actions", "user": {"id": name, "team_id": "T0RACE"}, "actions": [action],
        "response_url": "https://hooks.slack.com/x", "trigger_id": uuid.uuid4().hex,
    }  # fmt: skip
    body = urlencode({"payload": json.dumps(payload)}).encode()
    headers = {signing.TIMESTAMP: now, signing.SIGNATURE: signing.sign(SECRET, now, body)}
    response = Client(raise_request_exception=False, SERVER_NAME="localhost").post(
        "/api/v1/channels/slack", body, content_type=FORM, headers=headers
    )
    if response.status_code != 200:
        return Told(False, response.content.decode(), response.status_code)
    told = Delivery.objects.filter(occasion="replied", place=f"slack:T0RACE:{name}")
    return _by_chat(told.latest("id").words)


def teams_words(at: Question, who: Racer) -> Told:
    """Words of their account in Teams to an outgoing webhook."""
    _connect("teams", who)
    activity = {
        "timestamp": timezone.now().isoformat(), "from": {"id": who.user.get_username()},
        "conversation": {"tenantId": "T0RACE"}, "text": f"<at>W</at> approve {at.pause}",
    }  # fmt: skip
    body = json.dumps(activity).encode()
    response = Client(raise_request_exception=False, SERVER_NAME="localhost").post(
        "/api/v1/channels/teams", body, content_type="application/json",
        headers={"Authorization": f"HMAC {teams.signature(TEAMS_SECRET, body)}"},
    )  # fmt: skip
    if response.status_code != 200:
        return Told(False, response.content.decode(), response.status_code)
    return _by_chat(response.json()["text"])


def telegram_button(at: Question, who: Racer) -> Told:
    """A button that their account in Telegram presses; what they are told is its answer."""
    _connect("telegram", who, team="telegram", account=str(who.user.pk))
    data = f"{at.pause.removeprefix('pse_')}.1.{codec.digest('approve')[:12]}"
    sender = {"id": who.user.pk, "is_bot": False}
    name = uuid.uuid4().hex
    update = {"update_id": name, "callback_query": {"id": name, "from": sender, "data": data}}
    response = Client(raise_request_exception=False, SERVER_NAME="localhost").post(
        "/api/v1/channels/telegram", json.dumps(update), content_type="application/json",
        headers={telegram.HEADER: SECRET},
    )  # fmt: skip
    if response.status_code != 200:
        return Told(False, response.content.decode(), response.status_code)
    return _by_chat(response.json()["text"])


def _connect(service: str, who: Racer, *, team: str = "T0RACE", account: str = "") -> None:
    ChatAccount.objects.get_or_create(
        service=service,
        team=team,
        account=account or who.user.get_username(),
        defaults={"user": who.user},
    )


def _by_chat(words: str) -> Told:
    done = "was recorded as your" in words
    return Told(done, words, 200 if done else 409)


def outside_of(user: User) -> str:
    return f"{user.get_username()}@outside.example"


def expiry(at: Question, who: Racer) -> Told:
    """The question's deadline comes at this moment, and the sweep meets it: from then on no answer
    is taken.
    """
    # the first moves the moment, whoever it is: one that moved it again would have the other find
    # another deadline than it read, and be told that it was not the one
    now = timezone.now()
    Pause.objects.open().filter(pk=at.key, deadline_at__gt=now + dt.timedelta(hours=1)).update(
        deadline_at=now, next_at=now
    )
    with suppress(PauseClosed):
        fire(at.key, now=timezone.now())
    return Told(Pause.objects.get(pk=at.key).status == PauseStatus.EXPIRED, "")


WORD = re.compile(r"[\w-]+")
DOORS: dict[str, Door] = {
    "page": Door(
        lambda at, who: page(at, who, f"/pauses/{at.pause}/decide", action="approve", revision="1")
    ),
    "page, revise": Door(
        lambda at, who: page(
            at, who, f"/pauses/{at.pause}/decide", action="revise", feedback="shorter", revision="1"
        )
    ),
    "page, cancel": Door(
        lambda at, who: page(at, who, f"/pauses/{at.pause}/decide", action="cancel")
    ),
    "rest": Door(
        lambda at, who: rest(
            at, who, f"pauses/{at.pause}/decisions", decision="approve", revision=1
        )
    ),
    "rest, of the order": Door(
        lambda at, who: rest(
            at, who, f"work-orders/{at.order}/resume", decision="approve", pause_id=at.pause
        )
    ),
    "message": Door(lambda at, who: rest(at, who, f"threads/{at.thread}/runs", input="APPROVE")),
    "message, no": Door(lambda at, who: rest(at, who, f"threads/{at.thread}/runs", input="REJECT")),
    "input of the run": Door(
        lambda at, who: rest(at, who, f"runs/{at.run}/input", content="APPROVE")
    ),
    "socket": Door(socket),
    "assistant": Door(assistant),
    "graph client": Door(graph_client),
    "link": Door(link),
    "reply to a mail": Door(reply),
    "button in Slack": Door(slack),
    "words in Teams": Door(teams_words),
    "button in Telegram": Door(telegram_button),
    "link, outside": Door(partial(link, outside=True), outside=True),
    "expiry": Door(expiry, silent=True),
    "admin": Door(lambda at, who: desk(at, who, "approve")),
    "admin, cancel": Door(lambda at, who: desk(at, who, "cancel_order")),
    "command": Door(lambda at, who: shell(at, who, "approve", at.order, "--pause", at.pause)),
    "cancel on the page": Door(
        lambda at, who: page(at, who, f"/work-orders/{at.order}/cancel"), ends=True
    ),
    "cancel over rest": Door(
        lambda at, who: rest(at, who, f"work-orders/{at.order}/cancel"), ends=True
    ),
    "cancel of the run": Door(lambda at, who: rest(at, who, f"runs/{at.run}/cancel"), ends=True),
    "retry": Door(lambda at, who: rest(at, who, f"work-orders/{at.order}/retry"), answers=False),
    "suspend": Door(
        lambda at, who: rest(at, who, f"work-orders/{at.order}/suspend"), answers=False
    ),
}


OVER = "he time to answer"
"""What whoever comes after the deadline is told."""
TWICE = frozenset({"expiry", "retry"})
"""What expired may be retried and is asked again then: a second question, which a race about one is
not about.
"""


def one_question(names: Iterable[str]) -> list[str]:
    """These doors without the retry where the expiry is among them."""
    listed = list(names)
    return [name for name in listed if name != "retry"] if set(listed) >= TWICE else listed


@dataclass
class Tally:
    """What came of many rounds."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def people(number: int) -> list[Racer]:
    """So many, all in one team."""
    team, _ = Group.objects.get_or_create(name="racers")
    rights = Permission.objects.filter(codename__in=["view_pause", "change_pause"])
    found = []
    for place in range(number):
        user = User.objects.create_user(
            f"racer{place:02}", first_name=f"Racer-{place:02}", is_staff=True
        )
        user.groups.add(team)
        user.user_permissions.set(rights)
        browser, program = (
            Client(raise_request_exception=False),
            Client(raise_request_exception=False),
        )
        for client in (browser, program):
            client.defaults["SERVER_NAME"] = "localhost"
        browser.force_login(user)
        program.defaults["HTTP_AUTHORIZATION"] = f"Bearer {ApiToken.make(user, name='race')[1]}"
        found.append(Racer(user, browser, program))
    return found


Together = Callable[..., list[Any]]
"""Runs jobs at the same moment, and gives what each returned or raised."""


def race(
    at: Question, names: Sequence[str], who: Sequence[Racer], together: Together, tally: Tally
) -> None:
    """Send one person through each of these doors at once, and look whether all holds."""
    told = together(
        *(partial(DOORS[name].go, at, person) for name, person in zip(names, who, strict=True))
    )
    for name, one in zip(names, told, strict=True):
        if isinstance(one, Exception):
            tally.wrong.append(f"{names}: {name} raised {one!r}")
            return
    tally.wrong += [f"{tuple(names)}: {words}" for words in _broken(at, names, who, told, tally)]


def _broken(
    at: Question, names: Sequence[str], who: Sequence[Racer], told: Sequence[Told], tally: Tally
) -> list[str]:
    """What does not hold of a question after that, as sentences."""
    wrong = []
    decisions = list(Decision.objects.filter(pause=at.key).select_related("decided_by"))
    answering = any(DOORS[name].answers for name in names)
    expired = Pause.objects.filter(pk=at.key, status=PauseStatus.EXPIRED).exists()
    if len(decisions) != (answering and not expired):
        wrong.append(f"{len(decisions)} decisions")
    first = "expired" if expired else first_of(decisions[0]) if decisions else ""
    winners = 0
    for name, person, one in zip(names, who, told, strict=True):
        door = DOORS[name]
        won = (
            door.silent
            if expired
            else not door.silent
            and first == (outside_of(person.user) if door.outside else person.user.first_name)
        )
        tally.counts[f"{name}: {'first' if won else 'done after' if one.done else 'told'}"] += 1
        winners += won
        if one.status >= 500:
            wrong.append(f"{name}: {one.status}")
        if won and not one.done:
            wrong.append(f"{name} was recorded and told {one.status} {one.words[:200]}")
        if one.done and not won and door.answers and not door.ends:
            wrong.append(f"{name} was told that it was done; {first} was first")
        if (
            door.answers
            and not one.done
            and not door.silent
            and not _was_told(at, door, one, first, who)
        ):
            wrong.append(
                f"{name} was not told that {first} was first: {one.status} {one.words[-300:]}"
            )
    if answering and winners != 1 and not expired:
        wrong.append(f"{winners} winners")
    return wrong + _inconsistent(at, decisions)


def first_of(decision: Decision) -> str:
    """Who decided, as the others are told."""
    return decision.decided_by.first_name if decision.decided_by else str(decision.external)


def _was_told(at: Question, door: Door, one: Told, first: str, who: Sequence[Racer]) -> bool:
    """Whether a loser learned, calmly, that somebody was first, and who."""
    if one.status not in ({409, 410, 403} if door.go is link or door.outside else {302, 409}):
        return False
    if door.outside:
        return any(words in one.words for words in ("answered first", "is closed", OVER))
    if first == "expired" and OVER in one.words:
        return True
    return first in one.words or _ended_by_one(at, one, who)


def _ended_by_one(at: Question, one: Told, who: Sequence[Racer]) -> bool:
    """Whether a loser was told of the one who ended the order after the answer."""
    return any(
        {person.user.first_name, person.user.username} & set(WORD.findall(one.words))
        for person in who
    )


def _inconsistent(at: Question, decisions: Sequence[Decision]) -> list[str]:
    wrong = []
    pause = Pause.objects.select_related("run__thread").get(pk=at.key)
    if decisions:
        wanted = PauseStatus.CANCELLED if decisions[0].action == "cancel" else PauseStatus.ANSWERED
        if pause.status != wanted or pause.closed_at is None:
            wrong.append(f"the pause is {pause.status}")
    thread = pause.run.thread_id
    kinds = Counter(Event.objects.filter(thread=thread).values_list("kind", flat=True))
    if kinds["approval_received"] != len(decisions):
        wrong.append(f"{kinds['approval_received']} answers in the log")
    if kinds["run_cancelled"] > 1 or kinds["run_resumed"] > 1:
        wrong.append(f"ended or resumed more than once: {dict(kinds)}")
    if Run.objects.filter(thread=thread).count() != 1:
        wrong.append("another run began")
    seqs = list(Event.objects.filter(thread=thread).order_by("seq").values_list("seq", flat=True))
    if seqs != list(range(1, Thread.objects.get(pk=thread).last_seq + 1)):
        wrong.append("the log has a gap")
    return wrong


def ask(order: WorkOrder, who: Sequence[Racer] = ()) -> Question:
    """The open question of an order that waits, with every door open: links and people outside may
    answer, and its deadline is to come.
    """
    due = timezone.now() + dt.timedelta(days=1)
    pause = (
        Pause.objects.open()
        .select_related("run__thread", "run__work_order")
        .get(run__thread=order.thread_id)
    )
    to = [outside_of(person.user) for person in who]
    Pause.objects.filter(pk=pause.pk).update(
        review={"risk": "low", "link_answers": True, "deadline": {"after": "P1D"}, "external": to},
        outside={"to": to, "question": "", "content": "", "answers": list(pause.answers)},
        deadline_at=due,
        extendable_until=due,
        next_at=due,
    )
    return Question.of(pause)
