"""A program that runs one small workflow on nothing but a checkpoint store, for tests that kill it:
`python driver.py < order.json`.

plan → ask (waits for an answer) → work, three times → finish. After every step there is a
checkpoint; every step leaves a line in a ledger when its body ran. It is what a durable runtime
does with a store: load the newest, go on with the step it names.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import django

from checkpoints.contract import configured
from checkpoints.contract.base import CheckpointStore, Entry, HeadMoved, StoredCheckpoint

PROMPT = "approve-pr"
LOOPS = 3


class PromptMismatch(Exception):
    """The answer is to another question than the one that is open."""


def step(name: str, state: dict[str, Any]) -> tuple[dict[str, Any], Entry]:
    """What a step makes of the state, and what comes next."""
    match name:
        case "plan":
            return {"plan": "push PR #42"}, Entry(status="active", node_id=name, next_step="ask")
        case "ask":
            return {"prompt": PROMPT}, Entry(
                status="pending_input", node_id=name, metadata={"blocking_reason": PROMPT}
            )
        case "work":
            loop = state.get("loops", 0) + 1
            return {"loops": loop}, Entry(
                status="active",
                node_id=name,
                next_step="work" if loop < LOOPS else "finish",
                loop_num=loop,
            )
    return {"result": f"done after {state['answers']}"}, Entry(status="completed", node_id=name)


def run(
    store: CheckpointStore, thread: uuid.UUID, run_id: uuid.UUID, ledger: Path, *, die_after: int
) -> str:
    """Go on from the newest checkpoint until the workflow waits or ends; die after so many
    checkpoints (0: never). Gives the status.
    """
    head = store.latest(thread)
    state = dict(store.load(thread, head.id)) if head else {"task": "Push PR #42", "done": []}
    name = head.entry.next_step if head else "plan"
    written = 0
    while name:
        with ledger.open("a") as lines:
            lines.write(f"{name}\n")
        update, entry = step(name, state)
        state = {**state, **update, "done": [*state["done"], name]}
        head = store.put(thread, run_id, state, entry, parent=head.id if head else None)
        name, written = entry.next_step, written + 1
        if written == die_after:
            os.kill(os.getpid(), signal.SIGKILL)
    assert head is not None
    return head.entry.status


def answer(
    store: CheckpointStore, thread: uuid.UUID, prompt: str, response: str
) -> StoredCheckpoint:
    """Write a person's answer into the history; the workflow itself goes on elsewhere. Raises
    PromptMismatch.
    """
    head = store.latest(thread)
    asked = (
        head.entry.metadata.get("blocking_reason")
        if head and head.entry.status == "pending_input"
        else None
    )
    if head is None or asked != prompt:
        raise PromptMismatch(f"The open question is {asked!r}, not {prompt!r}.")
    state = {**store.load(thread, head.id), "prompt": None, "answers": [response]}
    return store.put(
        thread,
        head.run_id,
        state,
        Entry(status="active", node_id="ask", next_step="work"),
        parent=head.id,
    )


def race(store: CheckpointStore, thread: uuid.UUID, run_id: uuid.UUID, *, at: float) -> str:
    """Write a thread's first checkpoint at a given moment, together with others."""
    time.sleep(max(0.0, at - time.time()))  # all begin at one moment
    try:
        store.put(thread, run_id, {"who": os.getpid()}, Entry(status="active"), parent=None)
    except HeadMoved:
        return "moved"
    return "won"


def write_on(store: CheckpointStore, thread: uuid.UUID, run_id: uuid.UUID) -> None:
    """Write until killed; says each number once it is kept."""
    head = store.latest(thread)
    state = dict(store.load(thread, head.id)) if head else {"n": 0}
    while True:
        state = {**state, "n": state["n"] + 1, "wide": f"{state['n']}" * 5000}
        head = store.put(
            thread, run_id, state, Entry(status="active"), parent=head.id if head else None
        )
        sys.stdout.write(f"{state['n']}\n")
        sys.stdout.flush()


def main() -> None:
    order = json.load(sys.stdin)
    if "DJANGO_SETTINGS_MODULE" in os.environ:
        django.setup()
    store = configured.make(order["setting"])
    thread, run_id = uuid.UUID(order["thread"]), uuid.UUID(order["run"])
    match order["do"]:
        case "run":
            said: Any = run(
                store, thread, run_id, Path(order["ledger"]), die_after=order.get("die_after", 0)
            )
        case "answer":
            try:
                said = answer(store, thread, order["prompt"], order["response"]).id.hex
            except PromptMismatch as error:
                said = {"refused": str(error)}
        case "race":
            said = race(store, thread, run_id, at=order["at"])
        case _:
            return write_on(store, thread, run_id)
    json.dump(said, sys.stdout)
    return None


if __name__ == "__main__":
    main()
