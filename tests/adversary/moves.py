"""The moves: with what each door is tried, who goes through it, and the request itself.

A door that is not here fails `test_doors.py`. For one that acts, add a line to MOVES:

    "POST api/v1/pauses/<pse:pause_id>/wave": plain,

with a function that makes its body where the table of the matrix has none; for one that cannot move
a run, the reason to STILL of `still.py`.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.utils import timezone

from checkpoints.state import codec
from runs.models import Pause, Template
from tests.adversary import bodies
from tests.adversary.bodies import Pick
from tests.adversary.played.book import REVIEWERS, TEAM
from tests.adversary.played.templates import STEPS
from tests.adversary.still import STILL as STILL
from tests.adversary.world import CHATS, MAIL_DOMAIN, PEOPLE, World
from tests.matrix.addresses import API, ORDERS, PRINTED
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
        checkpoint_id=(None, *world.known("checkpoint_id").get("checkpoint_id", [])[:6]),
        reason=(None, "because"),
    )


def _page_resume(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    return pick.object(
        checkpoint=(None, *world.known("checkpoint_id").get("checkpoint_id", [])[:6])
    )


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
    run = pick.of(world.known("run_id").get("run_id", [])[:6], "run_x")
    return {"run_id": run, **bodies.event(world, pick), "webhook-id": pick("", "once")}


def _mail(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    """A reply to some mail that was sent, by whom it went to or by somebody else."""
    to = pick.of(world.reply_addresses()[:6], f"reply+{'a' * 32}@{MAIL_DOMAIN}")
    sender = f"{pick(*PEOPLE[:5])}@{MAIL_DOMAIN}"
    text = pick("approve", "revise: shorter", "The plan must be shorter", "ok", "cancel")
    return {"from": sender, "to": to, "text": text, "message_id": pick("<1>", uuid.uuid4().hex)}


def _slack(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    """A button that somebody presses, at a question that they may never have been shown."""
    pause = pick.of(world.known("pause_id").get("pause_id", [])[:6], f"pse_{NOTHING}")
    action = {
        "action_id": pick("answer:approve", "answer:approve", "answer:revise", "answer:cancel"),
        "value": f"{pause} {pick(1, 1, 2)}",
    }
    return {
        "type": "block_actions", "user": {"id": pick(*PEOPLE), "team_id": CHATS},
        "actions": [action], "response_url": "https://hooks.slack.com/x",
    }  # fmt: skip


def _teams(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    pause = pick.of(world.known("pause_id").get("pause_id", [])[:6], f"pse_{NOTHING}")
    said = pick("approve {}", "revise {}: shorter", "{} ok", "cancel {}").format(pause)
    return {
        "timestamp": timezone.now().isoformat(), "from": {"id": pick(*PEOPLE)},
        "conversation": {"tenantId": CHATS}, "text": said,
    }  # fmt: skip


def _telegram(world: World, pick: Pick, named: dict[str, str]) -> dict[str, Any]:
    """As in Slack; sometimes the same press is delivered again."""
    pause = pick.of(world.known("pause_id").get("pause_id", [])[:6], f"pse_{NOTHING}")
    action = codec.digest(pick("approve", "approve", "revise", "cancel"))[:12]
    sender = {"id": PEOPLE.index(pick(*PEOPLE)) + 1, "is_bot": False}
    data = f"{pause.removeprefix('pse_')}.{pick(1, 1, 2)}.{action}"
    return {
        "update_id": pick(1, uuid.uuid4().int % 10**9),
        "callback_query": {"id": "1", "from": sender, "data": data},
    }


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
    pause = pick.of(world.known("pause_id").get("pause_id", [])[:4], f"pse_{NOTHING}")
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
    f"POST {ORDERS}": _of(bodies.order),
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
    f"POST {API}channels/telegram": _telegram,
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
    f"POST operations/{RUN}/send-again": plain,
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
    f"socket {API}runs/{RUN}/stream/ws": _said,
    "socket ws/workflows/<str:run_id>/stream": _said,
    "socket ws/inbox": _said,
    "tool answer": _of(bodies.tool_answer),
    "tool start_work_order": _of(bodies.tool_order),
    f"graph POST threads/{THREAD}/runs": _of(bodies.graph_run),
    f"graph POST threads/{THREAD}/state": _of(bodies.graph_state),
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
    names = named_in(door)
    known = world.known(*names) if names else {}
    named = {name: pick.of(known.get(name, [])[:8], NOTHING) for name in names}
    key = pick("", "", "", "k1", "k2") if API in door else ""
    return Move(door, who, named, MOVES[door](world, pick, named), key)
