"""Whatever a document holds that fits its schema is shown, by every page, route and stream: odd
types, huge numbers, deep nesting (F15).
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from checkpoints.events import log
from checkpoints.models import Checkpoint, CheckpointStatus, Event, EventKind, Thread
from checkpoints.state import codec
from hitl.live import pump, sse, subscriptions, topics
from hitl.live.subscriptions import EventPage
from hitl.models import Import
from hitl.threads import export as whole
from runs.models import Run
from tests.matrix.addresses import served
from tests.worlds.histories.exported import bring_in
from tests.worlds.histories.exported import told as told

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]

EVERY = 4
"""Each so many-th of the documents that hold everything, each time with other values."""
deep: Any = []
for _ in range(15):
    deep = [deep]
ODD = [
    None,
    True,
    -1,
    0,
    10**400,
    -1.5e300,
    "",
    "x" * 5_000,
    "\x00\ud800",
    "<b>&",
    "\u202e",
    [],
    {},
    [None, {"a": [1]}],
    {"content": {}},
    deep,
]
KEYS = (
    "message", "level", "step", "tool", "error", "prompt", "decision", "by", "loop_num", "loop",
    "revision", "checkpoint_id", "votes",
    "edited", "pause_id", "decision_id", "goes_on_at", "what", "to", "stage", "deadline_at",
    "recipient", "reason", "content", "thinking",
    "calls", "run", "thread", "left", "status", "ms", "id", "arguments", "result", "external",
    "on_behalf_of", "feedback", "via", "node_id",
    "completed_nodes", "total_nodes", "imported_at", "cost", "input_tokens",
)  # fmt: skip


def _made(
    document: dict[str, Any],
    facts: Any,
    used: Any,
    state: Any,
    metadata: Any,
    said: Any,
    status: str,
) -> dict[str, Any]:
    """The document with one checkpoint of that state, and these events."""
    made = copy.deepcopy(document)
    row = next(one for one in made["checkpoints"] if one["parent_id"] is None)
    row |= {
        "state": state,
        "digest": codec.state_digest(codec.state(state)),
        "metadata": metadata,
        "status": status,
    }
    made["checkpoints"], made["thread"]["head"] = [row], row["id"]
    row |= {
        name: said[name]
        for name in ("node_id", "next_step", "loop_num", "completed_nodes", "total_nodes")
    }
    made["thread"]["title"] = said["title"]
    made["memos"], made["pauses"], made["decisions"] = [], made["pauses"][:1], made["decisions"][:1]
    for pause in made["pauses"]:
        pause |= {
            "facts": said["rows"],
            "effects": said["rows"],
            "calls": said["rows"],
            "answers_without_input": said["rows"],
            "known": state,
            "answers": state,
        }
        pause |= {
            "checkpoint_id": row["id"],
            "run_id": row["run_id"],
            "labels": state,
            "required_inputs": state,
            "votes": [],
        }
    for decision in made["decisions"]:
        decision |= {
            "payload": state,
            "votes": said["rows"],
            "ledger": state,
            "evidence": "",
            "pause_id": made["pauses"][0]["id"],
        }
    made["artifacts"] = []
    about: dict[str, Any] = {"run_id": row["run_id"], "at": row["created_at"]}
    told = [("checkpoint_created", {"checkpoint_id": row["id"]}), *facts, ("log", used)]
    made["events"] = [
        {"seq": place, "event": kind, "data": data, **about}
        for place, (kind, data) in enumerate(told, start=1)
    ]
    made["runs"] = [one for one in made["runs"] if one["id"] == row["run_id"]]
    ended = {
        "interrupt_before": said["rows"],
        "interrupt_after": said["rows"],
        "status": "failed" if status == "failed" else "completed",
    }
    made["runs"][0] |= {
        **ended,
        "error": said["title"],
        "failure_code": said["title"][:64],
        "input": state,
        "reason": said["title"],
    }
    return made


def _addresses(names: dict[str, str]) -> list[str]:
    """Every address of the product that needs just these ids, and the lists that threads, runs and
    checkpoints are on.
    """
    lists = ("", "threads/", "operations/", "api/v1/threads", "api/v1/runs")
    found = [
        pattern
        for pattern, _, is_admin in served()
        if not is_admin and ("_id>" in pattern or pattern in lists)
    ]
    filled = [
        re.sub(r"<(?:\w+:)?(\w+)>", lambda part: names.get(part[1], part[0]), pattern)
        for pattern in found
    ]
    return sorted({f"/{one}" for one in filled if not set(one) & set("<(^$")})


def _desk() -> list[str]:
    """The admin's lists of what a document brings, and the page of the last row of each."""
    pages = []
    for model in (Thread, Checkpoint, Event, Run, Import):
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        row = model._default_manager.order_by("pk").last()
        pages += [
            reverse(f"{name}_changelist"),
            *([reverse(f"{name}_change", args=[row.pk])] if row else []),
        ]
    return pages


def _turned(turn: int, values: Sequence[Any] = tuple(ODD)) -> tuple[Any, ...]:
    """One event of each kind with all keys, and a state and metadata with all theirs; each turn
    gives them other odd values.
    """

    def odds(names: Sequence[str], place: int) -> dict[str, Any]:
        return {
            name: values[(place + number + turn) % len(values)] for number, name in enumerate(names)
        }

    facts = [(kind, odds(KEYS, place)) for place, kind in enumerate(EventKind.values)]
    used = {"what": "usage", **odds(("cost", "run", "thread", "left", "loop", "input_tokens"), 0)}
    made = [
        odds(
            (
                "role",
                "content",
                "run_id",
                "loop",
                "at",
                "thinking",
                "left_out",
                "interrupted",
                "tools",
            ),
            place,
        )
        for place in range(4)
    ]
    tools = [
        odds(("tool", "ms", "result", "id", "status", "arguments"), place) for place in range(4)
    ]
    state = odds(
        (
            "_resume_context",
            "decided",
            "drafts",
            "agents",
            "agent",
            "plans",
            "graph_runs",
            "gathered",
        ),
        0,
    )
    state["messages"] = [*made, {"id": "m", "role": "assistant", "content": "x", "tools": tools}]
    metadata = {
        "outputs": odds(
            ("cost", "git_commit_count", "github_pull_request_url", "input_tokens", "pushed"), 0
        ),
        "report": odds(("content", "facts", "effects"), 1),
        "gather": {"to": values[0], "report": None},
        "loops": {"planning": 2**31 - 1, "": 0},
        "git": {"commit": "x", "base": "", "bundle": ""},
        "error": "x" * 3_000,
        "failure_code": ("", "expired", "odd")[turn % 3],
        **dict.fromkeys(("last_pause", "blocking_reason"), "\u202e<b>&\t"),
        **odds(("reason", "restored_from", "damaged"), 2),
    }
    said = {
        "rows": ODD[turn : turn + 3],
        "node_id": "planning",
        "next_step": "",
        "title": "\u202e<b>",
        "loop_num": 2**31 - 1,
    }
    return (
        facts,
        used,
        state,
        metadata,
        {**said, "completed_nodes": 2**31 - 1, "total_nodes": 1},
        CheckpointStatus.values[turn // EVERY % len(CheckpointStatus.values)],
    )


def test_every_door_shows_what_a_document_holds(told, zoe, api, admin_client):
    """Before, an event with a number in place of a text was a 500 on its thread's page, for
    everybody who may see it, for ever.

    The addresses are those that the project serves, so a new page or route that holds a thread, run
    or checkpoint is asked too.
    """
    document = json.loads(codec.encode(whole.export(told.thread_id)))
    client, page = api(zoe), Client(raise_request_exception=False)
    page.force_login(zoe)
    admin_client.raise_request_exception = client.raise_request_exception = False

    def look(facts: Any, used: Any, state: Any, metadata: Any, said: Any, status: str) -> None:
        thread = bring_in(_made(document, facts, used, state, metadata, said, status), zoe)
        thread.refresh_from_db()
        head, run = Checkpoint.objects.get(thread=thread), Run.objects.filter(thread=thread).first()
        names = {"thread_id": thread.shown_id, "checkpoint_id": head.shown_id}
        # without one that is known here it is history only
        names |= {"run_id": run.shown_id} if run else {}
        asked = [(_door(path, client, page), path) for path in _addresses(names)]
        asked += [
            (page, f"/threads/{thread.shown_id}/?live"),
            (page, f"/checkpoints/{head.shown_id}/?find=a"),
        ]
        asked += [
            (page, f"/checkpoints/compare?a={head.shown_id}&b={head.shown_id}"),
            (admin_client, "/operations/"),
        ]
        asked += [(client, f"/api/v1/checkpoints/{head.shown_id}/diff?against={head.shown_id}")]
        asked += [(admin_client, path) for path in _desk()]
        answers = {path: door.get(path) for door, path in asked}
        broken = {path: one for path, one in answers.items() if one.status_code >= 500}
        assert not broken, {
            path: getattr(one, "exc_info", None) or one.getvalue()[:300]
            for path, one in broken.items()
        }
        for path in (
            f"/threads/{thread.shown_id}/",
            f"/checkpoints/{head.shown_id}/",
            f"/threads/{thread.shown_id}/history",
        ):
            assert answers[path].status_code == 200, path
        for one in answers.values():
            if one.headers.get("Content-Type", "").startswith("application/json"):
                json.loads(one.getvalue())
        told_live = topics._told(log.told_after(thread.pk, 0))
        frames = sse.frames_of(EventPage(told_live, told_live[-1].seq))
        assert b"".join(pump.pieces(frames)).count(b"\ndata: ") == len(told_live)
        narrow = subscriptions.Filter.of(
            {"level": ["info"], "step": ["planning"], "since": ["2020-01-01T00:00:00Z"]}
        )
        assert {narrow.lets(one.event) for one in told_live} <= {True, False}

    for turn in range(0, len(ODD), EVERY):
        look(*_turned(turn))
    look(*_turned(0, ["\x00\ud800"]))  # half a surrogate pair was a 500 wherever a page showed it


def _door(path: str, client: Any, page: Client) -> Any:
    return client if path.startswith("/api/v1/") else page
