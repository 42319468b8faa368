"""What goes through a door: a move, or a look, and what comes back."""

from __future__ import annotations

import json
import re
import tempfile
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from django.core.management import CommandError, call_command
from django.http import Http404
from django.urls import reverse
from django.utils import timezone

from checkpoints import ids
from extensions.slack import signing
from extensions.teams import channel as teams
from extensions.telegram import channel as telegram
from hitl.http.refusals import exception_handler
from hitl.live import routing, socket_messages
from hitl.live.consumers import SocketRefused
from hitl.wait_gate import signatures
from runs.models import Pause
from tests.adversary.moves import Move
from tests.adversary.still import STILL as STILL
from tests.adversary.world import (
    SECRET,
    SOURCE,
    TEAMS_SECRET,
    World,
)
from tests.doors import langgraph, mcp
from tests.matrix.addresses import ADDRESSES, API
from tests.matrix.walk import ARGUMENT
from tests.matrix.world import NOTHING


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
    if path.endswith(("channels/slack", "channels/teams", "channels/telegram")):
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
    """As Slack, Teams or Telegram signs it."""
    raw, kind = json.dumps(body).encode(), "application/json"
    headers = {"Authorization": f"HMAC {teams.signature(TEAMS_SECRET, raw)}"}
    headers |= {telegram.HEADER: SECRET}
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
