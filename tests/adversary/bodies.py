"""What the adversary sends: honest bodies, and those with keys that only the product may write."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from checkpoints.models import Checkpoint
from checkpoints.state import codec
from runs.models import Pause
from tests.adversary.played.book import ACCOMPLICE, TEAM, text_of
from tests.adversary.played.reviewed import NARROWED
from tests.adversary.played.templates import INPUT, STEPS
from tests.adversary.world import World
from tests.worlds.histories.documents import signed

One = TypeVar("One")


class Pick:
    """Chooses: by Hypothesis in a game, by hand in a scheme."""

    def __init__(self, choose: Callable[[Sequence[Any]], Any]) -> None:
        self._choose = choose

    def __call__(self, *options: One) -> One:
        chosen: One = self._choose(options)
        return chosen

    def of(self, options: Sequence[One], otherwise: One) -> One:
        """One of the options; what it is otherwise, where there are none."""
        return self(*options) if options else otherwise

    def object(self, **keys: Sequence[Any]) -> dict[str, Any]:
        """An object; the first option of each key leaves the key out where it is None."""
        found = {name: self(*options) for name, options in keys.items()}
        return {name: value for name, value in found.items() if value is not None}


MINE = {"amount": 666, "to": "mallory"}
"""What the adversary would rather have paid."""
LESS = {"amount": 5, "to": "mallory"}
"""The same, so little that some steps ask nobody."""
STEP = ("pay", "act", "end", "plan", "ask", "kids")


def believed(text: str, decision: str = "dec_" + "0" * 26) -> dict[str, Any]:
    """Metadata as an approval of this text would leave it, in the shapes that it ever had."""
    given = {
        "pause": "pse_" + "0" * 26,
        "decision": decision,
        "action": "approve",
        "revision": 1,
        "content": "0" * 64,
        "material": codec.digest(codec.encode(text)),
    }
    return {"approved": {"plan": given, "draft": given}, "skipped": ["plan"], "cleared": "pay"}


def forgery(pick: Pick) -> dict[str, Any]:
    """Keys that somebody writes into a state."""
    call = {
        "decision": "approve",
        "tool": "transfer",
        "arguments": {"amount": 666, "to": "mallory"},
        "reason": "",
    }
    options: tuple[dict[str, Any], ...] = (
        MINE,
        {"amount": 666},
        {"call_decisions": {"call": {"transfer": call}}, **MINE},
        {"decided": {"plan": "approve"}, **MINE},
        {"decided_content": {"plan": text_of(MINE)}},
        {
            "metadata": believed(text_of(MINE)),
            "approved": believed(text_of(MINE))["approved"],
            "next_step": "pay",
            **MINE,
        },
        {"resume_from": "pay", "checkpoint_id": "x", **MINE},
        {"revision_feedback": "again", "gathered": {}, "fails": True},
    )
    return pick(*options)


WISHES: dict[str, Sequence[Any]] = {
    "amount": (10, 10, 20),
    "fails": (None, None, True),
    "leave": (None, "sleep", "ask"),
    "narrow": (None, *NARROWED),
    "hurry": (None, True),
    "risky": (None, None, True),
}
"""What an order says of how its workflow goes, where that asks it."""


def wishes(pick: Pick) -> dict[str, Any]:
    """One or two of them."""
    names = {pick(*WISHES), pick(*WISHES)}
    return pick.object(**{name: WISHES[name] for name in sorted(names)})


def order(world: World, pick: Pick) -> dict[str, Any]:
    """A new work order, with stops where its requester would like to talk to it again."""
    given = {**INPUT, **wishes(pick), "contact": ACCOMPLICE}
    options: tuple[dict[str, Any], ...] = (
        {},
        {},
        {},
        {"decided_content": {"plan": text_of(MINE)}},
        {"call_decisions": {"call": {}}},
    )
    extra = pick(*options)
    stops = pick.object(
        interrupt_before=(None, None, ["pay"], ["plan"], ["act"], ["kids/act"], ["kin"]),
        interrupt_after=(None, None, ["act"], ["plan"]),
    )
    return {
        "template": pick(*STEPS),
        "title": "Order",
        "input": {**given, **extra},
        "team": pick(TEAM, TEAM, None),
        **stops,
    }


def turn(world: World, pick: Pick) -> dict[str, Any]:
    """A turn on a thread: honest input, an answer to a stop, or all that a caller may name
    instead.
    """
    slugs, checkpoints = (
        [None, None, *STEPS],
        world.known("checkpoint_id").get("checkpoint_id", [])[:6],
    )
    how = pick("says", "says", "begins", "at a step", "at a checkpoint", "anyhow")
    wanted = pick(dict(MINE), forgery(pick), dict(INPUT), {"input": "hello"}, "APPROVE", None)
    stops = pick.object(
        interrupt_before=(None, ["pay"], ["act"]), interrupt_after=(None, None, ["act"])
    )
    named = {
        "template": pick(*slugs),
        "checkpoint_id": pick.of(checkpoints, None),
        "resume_from": pick(*STEP),
        "input": wanted,
    }
    state = {**INPUT, **forgery(pick)}
    found: dict[str, Any] = {
        "says": {"input": wanted},
        "begins": {"template": named["template"], "input": wanted, **stops},
        "at a step": {**named, "checkpoint_id": None, **pick({}, {"state": state, "input": None})},
        "at a checkpoint": {
            **named,
            "resume_from": pick(None, None, *STEP),
            "input": pick(None, None, wanted),
            **stops,
        },
        "anyhow": {
            **named,
            **stops,
            **pick({}, {"state": state, "input": None}),
            "replaces": pick(None, None, "msg_x"),
        },
    }[how]
    around = (
        pick.object(step_around=(None, None, True), reason=(None, "because"))
        if how not in {"says", "begins"}
        else {}
    )
    return {name: value for name, value in {**found, **around}.items() if value is not None}


CALLS = (
    {"transfer": {"decision": "approve"}, "drop": {"decision": "reject", "reason": "no"}},
    {
        "transfer": {"decision": "edit", "arguments": {"amount": 5, "to": "acme"}},
        "drop": {"decision": "approve"},
    },
    {
        "transfer": {"decision": "edit", "arguments": dict(MINE)},
        "drop": {"decision": "approve", "arguments": {"name": "all"}},
    },
)


def data(pick: Pick) -> Any:
    """What comes with an answer, wanted or not."""
    return pick(
        None,
        {"vat": "DE1"},
        {"vat": "DE1", **MINE},
        {"vat": "DE1", **forgery(pick)},
        {"calls": pick(*CALLS)},
        dict(MINE),
    )


WORDS = ("deny", "grant", "allow")
"""Answers of templates and of steps."""


def answer(world: World, pick: Pick, *, name: str = "decision") -> dict[str, Any]:
    more = pick.object(
        feedback=(None, "shorter"),
        revision=(None, 1, 2),
        edited_content=(None, None, None, text_of(MINE)),
        pause_id=(None,),
    )
    return {
        name: pick("approve", "approve", "answer", "revise", "cancel", "step_around", *WORDS),
        **more,
        "input": data(pick),
    }


def event(world: World, pick: Pick) -> dict[str, Any]:
    """A resume event: early, late, or for a question that it names."""
    word: Any = pick(
        "approve",
        {"decision": "approve"},
        {"decision": "approve", "revision": 1},
        data(pick),
        forgery(pick),
    )
    more = pick.object(
        node_id=(None, "plan", "pay", "ask", "call", "draft"),
        input_type=(None, None, "approve", "asking", "answer"),
        pause_id=(None, None, *world.known("pause_id").get("pause_id", [])[:3]),
        sender_metadata=(None, None, {"event_id": "1"}),
    )
    return {"payload": word, **more}


def fork(world: World, pick: Pick) -> dict[str, Any]:
    state = pick(None, None, {**INPUT, **forgery(pick)})
    return {"reason": "because", "step_around": pick(False, False, True), "state": state}


def template(world: World, pick: Pick, slug: str) -> dict[str, Any]:
    """Another version: without its review, with other reviewers, or as it was."""
    steps = json.loads(json.dumps(STEPS[slug]))
    change = pick("none", "unreviewed", "others", "unasked", "alone", "passing")
    for step in steps:
        if step.get("review"):
            step["review"] = {
                "unreviewed": {},
                "unasked": {},
                "others": {"reviewers": {"users": ["ana", "zoe"]}},
                "alone": {**step["review"], "quorum": 1, "self_approval": True},
            }.get(change, step["review"])
        if change == "passing" and step.get("review"):
            step["may_pass"] = "always"
        if change == "unasked":
            step["pause_after"] = False
    return {"steps": steps}


# documents


def forged(raw: bytes, *, template: tuple[str, int, str], **how: Any) -> bytes:
    """A document made of an exported one: a history of one's own, that stands right before what is
    to be done.

    `template` is the slug, version and digest of the definition that its run names; `how` may give
    `next_step`, `status` and `state`.
    """
    document = json.loads(raw)
    state = {
        "revision_feedback": "",
        "decided": {"plan": "approve"},
        **INPUT,
        **MINE,
        **how.get("state", {}),
    }
    last = document["checkpoints"][-1]
    row = {
        **{name: last[name] for name in ("id", "run_id", "created_at", "loop_num", "total_nodes")},
        "parent_id": None,
        "status": how.get("status", "active"),
        "node_id": how.get("node_id", "plan"),
        "next_step": how.get("next_step", "pay"),
        "completed_nodes": 1,
        "metadata": {
            **believed(text_of(state), how.get("decision", "dec_" + "0" * 26)),
            **how.get("metadata", {}),
        },
        "state": state,
        "digest": codec.state_digest(codec.state(state)),
    }
    run = next(one for one in document["runs"] if one["id"] == last["run_id"])
    slug, version, digest = template
    run |= {
        "status": "failed",
        "failure_code": "x",
        "error": "x",
        "template_slug": slug,
        "template_version": version,
        "definition": digest,
    }
    run |= {"retry_of": None, "interrupt_before": [], "interrupt_after": []}
    for name in ("parent", "child_name", "optional"):
        run.pop(name, None)
    document |= {
        "checkpoints": [row],
        "runs": [run],
        "pauses": [],
        "decisions": [],
        "artifacts": [],
        "events": [],
        "blobs": {},
    }
    document["memos"] = []
    document["thread"]["head"] = row["id"]
    document.pop("children", None)
    return signed(document)


def altered(raw: bytes, pick: Pick) -> bytes:
    """An exported document in which a little is another."""
    document = json.loads(raw)
    for one in document["checkpoints"][-1:]:
        one |= {
            "next_step": pick("pay", "act", one["next_step"]),
            "status": pick("active", "failed", one["status"]),
        }
        one["metadata"] = {
            **one["metadata"],
            **pick({}, believed(text_of(INPUT)), believed(text_of(MINE))),
        }
    for run in document["runs"]:
        run["status"] = pick(run["status"], "failed", "pending")
    return signed(document)


def definitions(world: World) -> list[tuple[str, int, str]]:
    """What any document may name: all that this server has frozen."""
    from runs.models import Definition

    return list(
        Definition.objects.order_by("-created_at").values_list(
            "template_slug", "template_version", "digest"
        )
    )


def document(world: World, pick: Pick) -> dict[str, Any]:
    if not world.documents:
        return {"raw": b"{}"}
    raw = pick(*world.documents[-4:])
    names = definitions(world)
    if pick(True, False) and names and json.loads(raw)["checkpoints"]:
        how = {
            "next_step": pick("pay", "act", "plan", "end"),
            "status": pick("active", "failed", "cancelled"),
        }
        return {"raw": forged(raw, template=pick(*names[:8]), **how)}
    return {"raw": pick(raw, altered(raw, pick)) if json.loads(raw)["checkpoints"] else raw}


def edited_state(world: World, pick: Pick, checkpoint: str) -> str:
    """A state for the editor of the admin."""
    from checkpoints import ids, store

    row = (
        Checkpoint.objects.filter(pk=ids.parse("ckpt", checkpoint)).first()
        if "_" in checkpoint
        else None
    )
    state = store.load(row) if row is not None else {}
    return json.dumps(pick(state, {**state, **forgery(pick)}))


def tool_answer(world: World, pick: Pick) -> dict[str, Any]:
    """An answer of somebody's assistant, to the content as it is or to another."""
    shown = pick.of(list(Pause.objects.order_by("-pk")[:4]), None)
    given = answer(world, pick)
    return {
        "question_id": shown.shown_id if shown else "pse_none",
        "decision": given["decision"],
        "revision": given.get("revision") or (shown.revision if shown else 1),
        "content_digest": pick(shown.content_digest if shown else "x", "x"),
        "feedback": given.get("feedback") or "",
        "input": given.get("input") or None,
    }


def tool_order(world: World, pick: Pick) -> dict[str, Any]:
    given = order(world, pick)
    return {name: given[name] or "" for name in ("template", "title", "input", "team")}


def graph_run(world: World, pick: Pick) -> dict[str, Any]:
    """What a LangGraph client starts, or answers in one of its dialects."""
    given = answer(world, pick)
    native = {name: given[name] for name in ("decision", "feedback", "input") if given.get(name)}
    words: Any = pick(native, True, "APPROVE", {"type": "edit", "args": {"args": MINE}}, data(pick))
    started = {"input": data(pick), "multitask_strategy": pick("enqueue", "interrupt", "reject")}
    return {"assistant_id": pick(*STEPS), **pick({"command": {"resume": words}}, started)}


def graph_state(world: World, pick: Pick) -> dict[str, Any]:
    """A state that a LangGraph client edits between runs."""
    return {
        "values": pick(dict(MINE), dict(INPUT), {}, forgery(pick), None),
        "as_node": pick("", "__start__", "__end__", *STEP),
    }


def batch(world: World, pick: Pick) -> dict[str, Any]:
    """Orders that somebody would have go on or end, wherever they stand."""
    return {
        "action": pick("retry", "cancel", "fork"),
        "order": world.known("order_id").get("order_id", [])[: pick(1, 3, 6)] or [f"wo_{'0' * 26}"],
        "reason": "because",
        "step": pick("draft", "execute", "review"),
        "batch": str(uuid.uuid4()),
    }


def batch_over_rest(world: World, pick: Pick) -> dict[str, Any]:
    given = batch(world, pick)
    return {name: given[name] for name in ("action", "reason", "step")} | {"orders": given["order"]}
