"""The moves: with what each door is tried, who goes through it, and the request itself.

A door that is not here fails `test_doors.py`. For one that acts, add a line to MOVES:

    "POST api/v1/pauses/<pse:pause_id>/wave": plain,

with a function that makes its body where the table of the matrix has none; for one that cannot move
a run, the reason to STILL of `still.py`.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import tempfile
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from django.core.management import CommandError, call_command
from django.http import Http404
from django.urls import reverse
from django.utils import timezone

from checkpoints import ids
from hitl.channels import teams
from hitl.channels.slack import signing
from hitl.decisions.deadlines import outcomes
from hitl.live import routing, socket_messages
from hitl.live.consumers import SocketRefused
from hitl.wait_gate import early_answers, signatures
from project.errors import exception_handler
from runs.engine.advance import advance
from runs.models import Pause, QueuedTurn, Run, Template
from runs.threads import message_queue
from tests.adversary import bodies
from tests.adversary.bodies import Pick
from tests.adversary.still import STILL as STILL
from tests.adversary.world import (
    CHATS,
    MAIL_DOMAIN,
    PEOPLE,
    REVIEWERS,
    SECRET,
    SOURCE,
    STEPS,
    TEAM,
    TEAMS_SECRET,
    World,
)
from tests.doors import langgraph, mcp
from tests.matrix.addresses import ADDRESSES, API, PRINTED
from tests.matrix.walk import ARGUMENT
from tests.matrix.world import NOTHING

Body = Callable[[World, Pick, dict[str, str]], dict[str, Any]]
PLAYERS = (*PEOPLE, "nobody")


@dataclass(frozen=True)
class Move:
    """One request, or whatever goes through a door that takes none."""

    door: str
    who: str
    ids: dict[str, str] = field(default_factory=dict)
    body: dict[str, Any] = field(default_factory=dict)
    key: str = ""
    """Its Idempotency-Key."""

    def __str__(self) -> str:
        told = {
            name: f"{len(value)} bytes" if isinstance(value, bytes) else value
            for name, value in self.body.items()
        }
        return (
            f"{self.who}: {self.door} {' '.join(self.ids.values())} "
            f"{json.dumps(told, default=str)[:600]}"
        )


def plain(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    """The body that the table of the matrix has for an address."""
    return {}


def _of(make: Callable[[World, Pick], dict[str, Any]]) -> Body:
    return lambda world, pick, named: make(world, pick)


def _page_order(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    return {"template": pick(*STEPS), "title": "Order", "request": "x"}


def _page_answer(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    given = bodies.answer(world, pick, name="action")
    data = given.pop("input") or {}
    return {
        **given,
        **{
            f"input.{name}": value
            for name, value in data.items()
            if not isinstance(value, dict | list)
        },
    }


def _page_calls(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    calls = {
        "calls.transfer.decision": "approve",
        "calls.drop.decision": "reject",
        "calls.drop.reason": "no",
    }
    return pick(
        _page_answer(world, pick, named),
        {"action": "answer", **calls},
        {"action": "approve"},
        {"action": "approve"},
    )


def _several(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    asked = Pause.objects.order_by("-pk")[:5]
    return {
        "pause": [f"{pause.shown_id}:{pause.revision}" for pause in asked],
        "action": pick("approve", "approve", "cancel"),
    }


def _bulk(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    asked = Pause.objects.order_by("-pk")[:5]
    chosen = [
        {"id": pause.shown_id, "pause_id": pause.shown_id, "revision": pause.revision}
        for pause in asked
    ]
    return {"decision": pick("approve", "approve", "cancel"), "pauses": chosen}


def _delegation(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    today = timezone.localdate()
    to = world.people[pick(*PEOPLE)]
    return {
        "to_user": to.pk,
        "first": today - dt.timedelta(days=1),
        "last": today + dt.timedelta(days=1),
        "reason": "away",
    }


def _schedule(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    """As REST and the page take it."""
    texts = {"user_request": "x", "request": "x"}
    order = {"template": pick(*STEPS), "priority": pick(-1, 0, 5), **texts}
    rules = {"zone": "UTC", "overlap": "allow", "catch_up": "latest", "catch_up_most": 1, **order}
    do = pick("start", "start", "off", "on", "remove")
    return {"do": do, "name": "x", "cron": pick("0 * * * *", "* * * * *", "nonsense"), **rules}


def _postpone(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    return {
        "until": (timezone.now() + dt.timedelta(hours=pick(1, 5, 9))).isoformat(),
        "reason": "x",
        "hours": 1,
    }


def _hand_over(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    return {"to": pick(*world.people), "reason": "away"}


def _text(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    return {
        "text": pick("APPROVE", "REJECT", "hello", "shorter"),
        "template": pick(*STEPS),
        "message": "msg_x",
        "when_busy": "queue",
    }


def _busy(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    return {"when_busy": pick("queue", "interrupt", "refuse")}


def _input(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    data: dict[str, Any] = {"input": bodies.data(pick) or {"vat": "x"}}
    options: tuple[dict[str, Any], ...] = (
        {"content": "APPROVE"},
        {"content": "hello"},
        {"input": bodies.forgery(pick)},
        data,
    )
    return pick(*options)


def _resume(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    return pick.object(
        checkpoint_id=(None, *world.known().get("checkpoint_id", [])[:6]), reason=(None, "because")
    )


def _page_resume(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    return pick.object(checkpoint=(None, *world.known().get("checkpoint_id", [])[:6]))


def _thread(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    return {
        "title": "A talk",
        **pick.object(team=(None, TEAM), when_busy=(None, "queue", "interrupt")),
    }


def _wait(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    asked = {
        "run_id": pick("outer-1", "outer-2"),
        "node_id": "plan",
        "blocking_reason": "asking",
        "state": bodies.forgery(pick),
    }
    return {
        **asked,
        "recipients": pick([], ["ben"]),
        "review": pick({}, {"reviewers": {"users": ["zoe"]}}),
    }


def _trace(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    known = world.known()
    trace = pick.of([*known.get("run_id", [])[:4], *known.get("thread_id", [])[:4]], "run_x")
    prompt = pick.of([*known.get("pause_id", [])[:4], "plan"], "plan")
    return {
        "traceId": trace,
        "promptId": prompt,
        "response": pick(
            "approve", {"decision": "approve"}, bodies.data(pick), bodies.forgery(pick)
        ),
    }


def _inbound(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    run = pick.of(world.known().get("run_id", [])[:6], "run_x")
    return {"run_id": run, **bodies.event(world, pick), "webhook-id": pick("", "once")}


def _mail(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    """A reply to some mail that was sent, by whom it went to or by somebody else."""
    to = pick.of(world.reply_addresses()[:6], f"reply+{'a' * 32}@{MAIL_DOMAIN}")
    sender = f"{pick(*PEOPLE[:5])}@{MAIL_DOMAIN}"
    text = pick("approve", "revise: shorter", "The plan must be shorter", "ok", "cancel")
    return {"from": sender, "to": to, "text": text, "message_id": pick("<1>", uuid.uuid4().hex)}


def _slack(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    """A button that somebody presses, at a question that they may never have been shown."""
    pause = pick.of(world.known().get("pause_id", [])[:6], f"pse_{NOTHING}")
    action = {
        "action_id": pick("answer:approve", "answer:approve", "answer:revise", "answer:cancel"),
        "value": f"{pause} {pick(1, 1, 2)}",
    }
    return {
        "type": "block_actions", "user": {"id": pick(*PEOPLE), "team_id": CHATS},
        "actions": [action], "response_url": "https://hooks.slack.com/x",
    }  # fmt: skip


def _teams(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    pause = pick.of(world.known().get("pause_id", [])[:6], f"pse_{NOTHING}")
    said = pick("approve {}", "revise {}: shorter", "{} ok", "cancel {}").format(pause)
    return {
        "timestamp": timezone.now().isoformat(), "from": {"id": pick(*PEOPLE)},
        "conversation": {"tenantId": CHATS}, "text": said,
    }  # fmt: skip


def _template(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    return bodies.template(world, pick, named.get("slug", "adv-strict"))


def _step_template(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    return {
        "title": "Pay",
        "function": pick("adversary.pay", "adversary.act"),
        "config": pick({}, {"of": "plan"}, {"of": "draft"}),
    }


def _page_template(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    """The form of the editor: the first step asks no more, or anybody."""
    found = (
        Template.objects.filter(slug=named.get("slug", "adv-strict")).order_by("-version").first()
    )
    version = found.version if found else 1
    return {
        "version": version,
        "title": "Edited",
        "0.rules": "1",
        **pick({}, {"0.pause_after": "on"}),
        "0.review.self_approval": "true",
        "0.max_revisions": 3,
        "0.review.stages.count": "0",
    }


def _link(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    return {
        "action": pick("approve", "approve", "revise"),
        "me": "yes",
        "feedback": "shorter",
        "input.vat": "DE1",
    }


def _action(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    return {"feedback": "shorter", "reason": "asked for", "confirmed": "yes"}


def _forensics(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    state = (
        bodies.edited_state(world, pick, named["checkpoint_id"])
        if "checkpoint_id" in named
        else "{}"
    )
    return {"reason": "because", "state": state, **pick.object(around=(None, None, "because"))}


def _membership(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    """An operator puts somebody into groups, and out of them."""
    return {"person": pick(*PEOPLE[:5]), "groups": pick([TEAM], [REVIEWERS], [TEAM, REVIEWERS], [])}


def _said(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    """A message over a socket."""
    pause = pick.of(world.known().get("pause_id", [])[:4], f"pse_{NOTHING}")
    return pick(
        {"type": "decision", "pause_id": pause, **bodies.answer(world, pick)},
        {"type": "input", **_input(world, pick, named)},
        {"type": "presence", "pause_id": pause, "writing": True},
        {"type": "approve", "pause_id": pause},
    )


def _order_words(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    return {
        "template": pick(*STEPS),
        "input": json.dumps({**world_input(pick), "contact": "x@elsewhere.example"}),
    }


def world_input(pick: Pick) -> dict[str, Any]:
    return pick(
        {"amount": 10, "to": "acme"},
        {"amount": 20, "to": "acme", "decided_content": {"plan": "Pay 666 to mallory"}},
    )


ORDER, PAUSE, THREAD, RUN = "<wo:order_id>", "<pse:pause_id>", "<thr:thread_id>", "<run:run_id>"
SCHEDULE, START, COMMENT = "<sch:schedule_id>", "<ist:start_id>", "<cmt:comment_id>"
CHECKPOINT, DECISION, TURN, DELIVERY = (
    "<ckpt:checkpoint_id>",
    "<dec:decision_id>",
    "<trn:turn_id>",
    "<dlv:delivery_id>",
)
MOVES: dict[str, Body] = {
    f"POST {API}work-orders": _of(bodies.order),
    f"POST {API}work-orders/{ORDER}/resume": _of(bodies.answer),
    f"POST {PRINTED}": _of(bodies.order),
    f"POST {PRINTED}{ORDER}/resume": _of(bodies.answer),
    f"POST {API}work-orders/{ORDER}/cancel": plain,
    f"POST {API}work-orders/{ORDER}/retry": plain,
    f"POST {API}work-orders/{ORDER}/again": plain,
    f"POST {API}work-orders/{ORDER}/suspend": plain,
    f"POST {API}work-orders/{ORDER}/priority": _schedule,
    f"POST {API}threads": _thread,
    f"PATCH {API}threads/{THREAD}": _busy,
    f"POST {API}threads/import": _of(bodies.document),
    f"POST {API}threads/{THREAD}/runs": _of(bodies.turn),
    f"DELETE {API}threads/{THREAD}/queue/{TURN}": plain,
    f"POST {API}runs/{RUN}/input": _input,
    f"POST {API}runs/{RUN}/resume": _resume,
    f"POST {API}runs/{RUN}/cancel": plain,
    f"POST {API}runs/{RUN}/suspend": plain,
    f"POST {API}checkpoints/{CHECKPOINT}/fork": _of(bodies.fork),
    f"POST {API}pauses/bulk": _bulk,
    f"POST {API}batches": _of(bodies.batch_over_rest),
    f"POST {API}pauses/{PAUSE}/claim": plain,
    f"POST {API}pauses/{PAUSE}/release": plain,
    f"POST {API}pauses/{PAUSE}/decisions": _of(bodies.answer),
    f"POST {API}pauses/{PAUSE}/comments": _text,
    f"DELETE {API}comments/{COMMENT}": plain,
    f"POST {API}pauses/{PAUSE}/hand-over": _hand_over,
    f"DELETE {API}pauses/{PAUSE}/hand-over": plain,
    f"POST {API}pauses/{PAUSE}/extend": _postpone,
    f"POST {API}pauses/{PAUSE}/snooze": _postpone,
    f"POST {API}decisions/{DECISION}/undo": plain,
    f"POST {API}workflows/wait": _wait,
    f"POST {API}workflows/<str:run_id>/resume": _of(bodies.event),
    f"POST {API}workflows/<str:run_id>/resume-and-continue": _of(bodies.event),
    f"POST {API}resume": _trace,
    f"POST {API}inbound/<slug:source>": _inbound,
    f"POST {API}channels/mail": _mail,
    f"POST {API}channels/slack": _slack,
    f"POST {API}channels/teams": _teams,
    f"POST {API}schedules": _schedule,
    f"PATCH {API}schedules/{SCHEDULE}": _schedule,
    f"DELETE {API}schedules/{SCHEDULE}": plain,
    f"POST {API}schedules/{SCHEDULE}/start": plain,
    "POST schedules/new": _schedule,
    f"POST schedules/{SCHEDULE}/": _schedule,
    f"POST schedules/{SCHEDULE}/do": _schedule,
    f"PUT {API}templates/workflows/<slug:slug>": _template,
    f"PUT {API}templates/steps/<slug:slug>": _step_template,
    f"PUT {PRINTED}templates/workflows/<slug:slug>": _template,
    "POST work-orders/new": _page_order,
    f"POST work-orders/{ORDER}/cancel": plain,
    f"POST work-orders/{ORDER}/suspend": plain,
    f"POST work-orders/{ORDER}/priority": _schedule,
    f"POST work-orders/{ORDER}/retry": plain,
    f"POST work-orders/{ORDER}/again": plain,
    f"POST pauses/{PAUSE}/decide": _page_calls,
    f"POST pauses/{PAUSE}/claim": plain,
    f"POST pauses/{PAUSE}/release": plain,
    f"POST pauses/{PAUSE}/comment": _text,
    f"POST comments/{COMMENT}/withdraw": plain,
    f"POST pauses/{PAUSE}/seen": plain,
    f"POST pauses/{PAUSE}/hand-over": _hand_over,
    f"POST pauses/{PAUSE}/extend": _postpone,
    f"POST pauses/{PAUSE}/snooze": plain,
    "POST several": _several,
    f"POST decisions/{DECISION}/undo": plain,
    "POST delegations/": _delegation,
    "POST delegations/<int:delegation_id>/end": plain,
    "POST threads/": plain,
    f"POST threads/{THREAD}/say": _text,
    f"POST threads/{THREAD}/edit": _text,
    f"POST threads/{THREAD}/resume": _page_resume,
    f"POST threads/{THREAD}/busy": _busy,
    f"POST threads/{THREAD}/queue/{TURN}/withdraw": plain,
    f"POST threads/{THREAD}/suspend": plain,
    f"POST threads/{THREAD}/cancel": plain,
    f"POST checkpoints/{CHECKPOINT}/resume": plain,
    "POST templates/<slug:slug>/": _page_template,
    f"POST operations/{RUN}/accept-code": plain,
    "POST operations/batches/new": _of(bodies.batch),
    "POST operations/sweep": plain,
    "POST l/<str:token>": _link,
    "admin runs.Pause approve": _action,
    "admin runs.Pause revise": _action,
    "admin runs.Pause cancel_order": _action,
    "admin runs.WorkOrder cancel_order": _action,
    "admin runs.WorkOrder retry": _action,
    "admin runs.Run cancel_order": _action,
    "admin runs.Run retry": _action,
    "admin checkpoints_checkpoint_fork": _forensics,
    "admin checkpoints_checkpoint_resume": _forensics,
    "admin auth_user change": _membership,
    f"socket ws/threads/{THREAD}/stream": _said,
    f"socket ws/runs/{RUN}/stream": _said,
    f"socket runs/{RUN}/stream/ws": _said,
    "socket ws/workflows/<str:run_id>/stream": _said,
    "socket ws/inbox": _said,
    "tool answer": _of(bodies.tool_answer),
    "tool start_work_order": _of(bodies.tool_order),
    f"graph POST threads/{THREAD}/runs": _of(bodies.graph_run),
    "command workorder create": _order_words,
    "command workorder approve": plain,
    "command workorder revise": plain,
    "command workorder cancel": plain,
    "command import_thread": _of(bodies.document),
}
"""Door → what is sent through it.

All of them can begin, answer, move or end a run, or change who may.
"""


def named_in(door: str) -> list[str]:
    """The arguments of a door."""
    if door.startswith("admin "):
        model = {"runs.Pause": "pause_id", "runs.WorkOrder": "order_id", "runs.Run": "run_id"}.get(
            door.split()[1]
        )
        return [model] if model else ["checkpoint_id"] if "checkpoint" in door else []
    if door.startswith("command workorder") and not door.endswith("create"):
        return ["order_id"]
    return [name for _, name in ARGUMENT.findall(door)]


def make(world: World, door: str, who: str, pick: Pick) -> Move:
    """A move through a door, at things that there are."""
    known = world.known()
    named = {name: pick.of(known.get(name, [])[:8], NOTHING) for name in named_in(door)}
    key = pick("", "", "", "k1", "k2") if API in door else ""
    return Move(door, who, named, MOVES[door](world, pick, named), key)


# what goes through a door


@dataclass(frozen=True)
class Came:
    """What came back: a status, and the words."""

    status: int
    text: str = ""

    @property
    def done(self) -> bool:
        return 200 <= self.status < 400


def play(world: World, move: Move) -> Came:
    """Go through a door; what was done is counted, and told in the story."""
    world.story.append(str(move))
    kind, _, rest = move.door.partition(" ")
    ways = {"admin": _desk, "socket": _socket, "tool": _tool, "graph": _tool, "command": _command}
    came = ways.get(kind, _request)(world, move, rest)
    world.story[-1] += f" → {came.status}" + (f" {came.text[:200]}" if came.status >= 422 else "")
    if came.done:
        world.moved[move.door] += 1
    return came


def url_of(path: str, named: Mapping[str, str]) -> str:
    return "/" + ARGUMENT.sub(lambda match: named.get(match[2], NOTHING), path)


def _request(world: World, move: Move, path: str) -> Came:
    method = move.door.split()[0]
    url, body = (
        url_of(path, {**move.ids, "source": SOURCE}),
        move.body or dict(ADDRESSES[path].body),
    )
    if not path.startswith("api/"):
        return _came(world.pages[move.who].post(url, body))
    headers = {"Idempotency-Key": move.key} if move.key else {}
    raw = body["raw"] if "raw" in body else json.dumps(body).encode()
    if path.endswith(("channels/slack", "channels/teams")):
        return _from_chat(world, url, body)
    if "inbound" in path or path.endswith("channels/mail"):
        name = body.get("webhook-id") or uuid.uuid4().hex
        now = timezone.now()
        headers |= {
            signatures.ID: name,
            signatures.TIMESTAMP: str(int(now.timestamp())),
            signatures.SIGNATURE: signatures.sign(SECRET, name, now, raw),
        }
        return _came(
            world.rest["nobody"].generic(
                method, url, raw, content_type="application/json", headers=headers
            )
        )
    came = _came(
        world.rest[move.who].generic(
            method, url, raw, content_type="application/json", headers=headers
        )
    )
    if "raw" in body and came.done:
        _copied(world, raw)
    return came


def _from_chat(world: World, url: str, body: Mapping[str, Any]) -> Came:
    """As Slack, or Teams, signs it."""
    raw, kind = json.dumps(body).encode(), "application/json"
    headers = {"Authorization": f"HMAC {teams.signature(TEAMS_SECRET, raw)}"}
    if url.endswith("slack"):
        raw = urlencode({"payload": json.dumps(body)}).encode()
        now, kind = str(int(timezone.now().timestamp())), "application/x-www-form-urlencoded"
        headers = {signing.TIMESTAMP: now, signing.SIGNATURE: signing.sign(SECRET, now, raw)}
    return _came(world.rest["nobody"].generic("POST", url, raw, content_type=kind, headers=headers))


def _copied(world: World, raw: bytes) -> None:
    world.copied |= set(re.findall(r"thr_[0-9a-hjkmnp-tv-z]{26}", raw.decode()))


def _came(response: Any) -> Came:
    text = b"" if response.streaming else response.content
    return Came(response.status_code, text.decode(errors="replace"))


def read(world: World, who: str, path: str, named: Mapping[str, str]) -> Came:
    """Look at an address, and keep a document that it gives."""
    client = (world.rest if path.startswith(API) else world.pages)[who]
    came = _came(client.get(url_of(path, {**named, "source": SOURCE})))
    if path.endswith("/export") and came.status == 200:
        world.documents.append(came.text.encode())
    return came


def _desk(world: World, move: Move, name: str) -> Came:
    client = world.pages[move.who]
    if name == "auth_user change":
        return _came(_change_groups(world, client, move.body))
    if name.startswith("checkpoints_checkpoint"):
        key = _key(move.ids["checkpoint_id"])
        return _came(client.post(reverse(f"admin:{name}", args=[key]), move.body))
    label, action = name.split()
    (shown,) = move.ids.values()
    row = {"action": action, "_selected_action": str(_key(shown))}
    if label == "runs.Pause":
        pause = Pause.objects.filter(pk=_key(shown)).first()
        row[f"revision_{shown}"] = str(pause.revision if pause else 1)
    app, model = label.lower().split(".")
    return _came(client.post(reverse(f"admin:{app}_{model}_changelist"), {**row, **move.body}))


def _change_groups(world: World, client: Any, body: Mapping[str, Any]) -> Any:
    from django.contrib.auth.models import Group, User

    user = User.objects.get(username=body["person"])
    joined = timezone.localtime(user.date_joined)
    form = {
        "username": user.username, "email": user.email, "is_active": "on",
        "date_joined_0": f"{joined:%Y-%m-%d}",
        "date_joined_1": f"{joined:%H:%M:%S}",
        "groups": [Group.objects.get(name=name).pk for name in body["groups"]],
        "user_permissions": list(user.user_permissions.values_list("pk", flat=True)),
    }  # fmt: skip
    return client.post(reverse("admin:auth_user_change", args=[user.pk]), form)


def _key(shown: str) -> uuid.UUID:
    # of what there is none
    return ids.parse(shown.partition("_")[0], shown) if "_" in shown else uuid.UUID(int=0)


def _socket(world: World, move: Move, path: str) -> Came:
    """As the consumer does, without its loop: admitted by the address, then each message is
    answered in a thread of the database.
    """
    routes = {str(entry.pattern): entry for entry in routing.websockets(exception_handler)}
    secret = world.rest[move.who].defaults.get("HTTP_AUTHORIZATION", "")
    scope: dict[str, Any] = {
        "type": "websocket",
        "headers": [(b"authorization", str(secret).encode())],
        "query_string": b"",
    }
    scope |= {"path": url_of(path, move.ids), "path_remaining": url_of(path, move.ids)}
    found = routes[path].pattern.match(url_of(path, move.ids)[1:])
    if found is None:
        return Came(404)
    consumer = routes[path].callback.consumer_class(problem_of=exception_handler)
    consumer.scope = {**scope, "url_route": {"args": (), "kwargs": found[2]}}
    try:
        consumer._admit()
    except SocketRefused as refused:
        return Came(404, str(refused.code))
    reply = socket_messages.answer(
        json.dumps(move.body),
        scope=consumer.scope,
        place=consumer.place,
        problem_of=exception_handler,
    )
    told = json.loads(reply)
    return Came(200 if told["type"] == "accepted" else int(told["problem"]["status"]), reply)


def _tool(world: World, move: Move, name: str) -> Came:
    secret = str(world.rest[move.who].defaults.get("HTTP_AUTHORIZATION", ""))
    if move.door.startswith("graph"):
        return Came(*langgraph.moved_here(secret, name, move.ids, move.body))
    return Came(*mcp.called_here(secret, name, move.body))


def _command(world: World, move: Move, name: str) -> Came:
    out = StringIO()
    words = name.split()
    try:
        if name == "import_thread":
            with tempfile.NamedTemporaryFile(suffix=".json") as file:
                Path(file.name).write_bytes(move.body["raw"])
                call_command("import_thread", file.name, "--owner", move.who, stdout=out)
            _copied(world, move.body["raw"])
        elif words[1] == "create":
            more = ["--template", move.body["template"], "--input", move.body["input"]]
            call_command("workorder", "--user", move.who, "create", *more, stdout=out)
        else:
            more = ["shorter"] if words[1] == "revise" else ["--reason", "x"]
            call_command(
                "workorder", "--user", move.who, words[1], move.ids["order_id"], *more, stdout=out
            )
    except (CommandError, Http404) as error:
        return Came(409, str(error))
    return Came(200, out.getvalue())


# what happens by itself


def settle(world: World, *, steps: int = 40) -> None:
    """Workers take what is due as far as it goes."""
    for _ in range(steps):
        due = (
            Run.objects.filter(status="pending", due_at__lte=timezone.now())
            .order_by("pk")
            .values_list("pk", flat=True)
            .first()
        )
        if due is None:
            return
        advance(due, budget=60)


def work_a_little(world: World) -> None:
    """A worker takes one step of the newest run that is due."""
    due = (
        Run.objects.filter(status="pending", due_at__lte=timezone.now())
        .order_by("-pk")
        .values_list("pk", flat=True)
        .first()
    )
    if due is not None:
        advance(due, budget=0)


def sweep(world: World) -> None:
    """What beat has done from time to time: deadlines, early answers, messages whose turn has come,
    mail.
    """
    now = timezone.now()
    outcomes.fire_due(now=now)
    early_answers.sweep(now=now)
    for thread in QueuedTurn.objects.waiting().values_list("thread", flat=True).distinct():
        message_queue.begin_next(thread)
    world.collect_links()


def time_passes(world: World) -> None:
    """Every deadline of an open question lies behind us, and so does the time for second thoughts.

    The sweep is yet to come.
    """
    past = timezone.now() - dt.timedelta(minutes=1)
    Pause.objects.open().filter(deadline_at__gt=past).update(deadline_at=past, next_at=past)
    Run.objects.filter(status="pending", due_at__gt=past).update(due_at=past)


NATURE: dict[str, Callable[[World], None]] = {
    "settle": settle,
    "work": work_a_little,
    "sweep": sweep,
    "time": time_passes,
}
"""What nobody does, and happens all the same."""
