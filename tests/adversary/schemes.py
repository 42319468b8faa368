"""Attacks of several moves, by name: each was done to the product once, or stands beside one that
was.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.test import Client

from checkpoints.models import Checkpoint
from hitl.models import ApiToken, Decision, Vote
from runs.models import Definition, Pause
from tests.adversary import bodies, nature, passing
from tests.adversary.moves import Move
from tests.adversary.played.book import ACCOMPLICE, TEAM, text_of
from tests.adversary.played.templates import INPUT
from tests.matrix.addresses import API
from tests.worlds.histories.documents import signed

if TYPE_CHECKING:
    from tests.adversary.machine import Game

Scheme = Callable[["Game"], None]
SCHEMES: dict[str, Scheme] = {}
CALLS = bodies.CALLS[0]
ORDERS, DECIDE = f"POST {API}work-orders", f"POST {API}pauses/<pse:pause_id>/decisions"
TURNS, FORK = (
    f"POST {API}threads/<thr:thread_id>/runs",
    f"POST {API}checkpoints/<ckpt:checkpoint_id>/fork",
)
IMPORT, EXPORT = f"POST {API}threads/import", f"{API}threads/<thr:thread_id>/export"
EVENT = f"POST {API}workflows/<str:run_id>/resume"


def scheme(play: Scheme) -> Scheme:
    SCHEMES[play.__name__] = play
    return play


def newest(game: Game, name: str) -> str:
    return game.world.known(name).get(name, ["x"])[0]


def order(game: Game, template: str, by: str = "ana", **more: Any) -> str:
    """An order of Ana's team; gives its id."""
    given = {
        "template": template,
        "title": "Order",
        "input": {**INPUT, **more.pop("input", {})},
        "team": TEAM,
        **more,
    }
    game.play(ORDERS, by, given)
    return newest(game, "order_id")


def talk(game: Game, template: str, by: str = "ana", **more: Any) -> str:
    """A thread without an order, and its first turn; gives its id."""
    game.play(f"POST {API}threads", by, {"title": "A talk", "team": TEAM})
    thread = newest(game, "thread_id")
    game.play(TURNS, by, {"template": template, "input": dict(INPUT), **more}, thread_id=thread)
    return thread


def approve(game: Game, *who: str, **more: Any) -> None:
    """Each answers the newest open question."""
    for one in who:
        pause = Pause.objects.filter(status="open").order_by("-pk").first()
        if pause is not None:
            game.play(DECIDE, one, {"decision": "approve", **more}, pause_id=pause.shown_id)


def wanted_by(pause: Pause, **more: Any) -> dict[str, Any]:
    """An answer that fits a question; `more` comes along with data."""
    if pause.calls:
        return {"decision": "answer", "input": {"calls": CALLS}}
    return (
        {"decision": "answer", "input": {"vat": "DE1", **more}}
        if pause.required_inputs
        else {"decision": "approve"}
    )


def exported(game: Game, who: str = "ana") -> bytes:
    passing.read(game.world, who, EXPORT, {"thread_id": newest(game, "thread_id")})
    return game.world.documents[-1] if game.world.documents else b"{}"


def definition(slug: str) -> tuple[str, int, str]:
    found = Definition.objects.filter(template_slug=slug).order_by("-created_at").first()
    assert found is not None
    return slug, found.template_version, found.pk


def bring_in(game: Game, raw: bytes, who: str = "dee") -> None:
    """Import a document, and go on with what came of it in each way there is."""
    before = newest(game, "thread_id")
    game.play(IMPORT, who, {"raw": raw})
    thread = newest(game, "thread_id")
    if thread == before:
        return
    for body in ({}, {"input": None}, {"checkpoint_id": newest(game, "checkpoint_id")}):
        game.play(TURNS, who, dict(body), thread_id=thread)
    game.play(f"POST {API}runs/<run:run_id>/resume", who, {}, run_id=newest(game, "run_id"))
    game.play(FORK, who, {"reason": "because"}, checkpoint_id=newest(game, "checkpoint_id"))


@scheme
def a_document_says_that_it_was_approved(game: Game) -> None:
    """A plain user's document stands right before the payment, with an approval in its metadata."""
    order(game, "adv-strict")
    raw = exported(game)
    bring_in(game, bodies.forged(raw, template=definition("adv-strict")))


@scheme
def a_document_says_what_was_decided_of_calls(game: Game) -> None:
    """The same for the calls of tools: `call_decisions` in the state, right before the step that
    makes them.
    """
    order(game, "adv-tools")
    raw = exported(game)
    calls = {
        "transfer": {
            "decision": "approve",
            "tool": "transfer",
            "arguments": dict(bodies.MINE),
            "reason": "",
        },
        "drop": {
            "decision": "approve",
            "tool": "drop",
            "arguments": {"name": "orders"},
            "reason": "",
        },
    }
    state = {"call_decisions": {"call": calls}}
    bring_in(
        game,
        bodies.forged(
            raw, template=definition("adv-tools"), next_step="call", node_id="", state=state
        ),
    )


@scheme
def a_document_names_a_decision_of_another_thread(game: Game) -> None:
    """The approval in its metadata is a real one: for another thread's revision of the same
    words.
    """
    order(game, "adv-strict", input=bodies.MINE)
    approve(game, "ben", "cy")
    decision = Decision.objects.order_by("-pk").first()
    raw = exported(game)
    bring_in(
        game,
        bodies.forged(
            raw, template=definition("adv-strict"), decision=decision.shown_id if decision else "x"
        ),
    )


@scheme
def an_approved_thread_is_imported_again(game: Game) -> None:
    """What was approved and paid is exported, cut back to before the payment, and paid a second
    time elsewhere.
    """
    order(game, "adv-strict")
    approve(game, "ben")
    raw = json.loads(exported(game))
    approve(game, "cy")
    raw = json.loads(exported(game))
    place = next(
        (number for number, row in enumerate(raw["checkpoints"]) if row["next_step"] == "pay"),
        len(raw["checkpoints"]) - 1,
    )
    raw["checkpoints"] = raw["checkpoints"][: place + 1]
    raw["thread"]["head"] = raw["checkpoints"][-1]["id"]
    for run in raw["runs"]:
        run |= {"status": "failed", "error": "x", "failure_code": "x"}
    known = {row["id"] for row in raw["checkpoints"]}
    raw["pauses"] = [one for one in raw["pauses"] if one["checkpoint_id"] in known]
    raw["events"] = []
    bring_in(game, signed(raw))


@scheme
def a_stop_behind_the_review_takes_new_input(game: Game) -> None:
    """The requester has the order stop behind the review, and answers the stop with an object."""
    thread = talk(game, "adv-strict", interrupt_before=["act", "pay"])
    approve(game, "ben", "cy")
    game.play(TURNS, "ana", {"input": dict(bodies.MINE)}, thread_id=thread)
    game.play(TURNS, "ana", {"input": dict(bodies.MINE)}, thread_id=thread)


@scheme
def a_stop_of_an_order_takes_new_input(game: Game) -> None:
    """The same for a work order, whose run takes input."""
    order(game, "adv-strict", interrupt_before=["act"], interrupt_after=["act"])
    approve(game, "ben", "cy")
    run = newest(game, "run_id")
    for _ in range(2):
        game.play(
            f"POST {API}runs/<run:run_id>/input", "ana", {"input": dict(bodies.MINE)}, run_id=run
        )
    for _ in range(2):
        game.play(
            "socket ws/runs/<run:run_id>/stream",
            "ana",
            {"type": "input", "input": dict(bodies.MINE)},
            run_id=run,
        )


@scheme
def a_suspended_run_takes_new_input(game: Game) -> None:
    """Somebody suspends the run behind the review, and answers with an object."""
    thread = talk(game, "adv-timed")
    pause = newest(game, "pause_id")
    passing.play(game.world, Move(DECIDE, "ben", {"pause_id": pause}, {"decision": "approve"}))
    nature.work_a_little(game.world)
    approve(game, "ana", decision="answer", input={"vat": "DE1"})
    passing.play(
        game.world,
        Move(f"POST {API}runs/<run:run_id>/suspend", "ana", {"run_id": newest(game, "run_id")}),
    )
    game.after()
    game.play(TURNS, "ana", {"input": dict(bodies.MINE)}, thread_id=thread)


@scheme
def another_template_over_a_checkpoint(game: Game) -> None:
    """Approved under a template without rules, gone on with under one with rules, from the
    checkpoint of the answer.
    """
    thread = talk(game, "adv-lax", interrupt_before=["act"])
    approve(game, "ana")
    approve(game, "ana", decision="cancel")
    for checkpoint in [
        one.shown_id
        for one in Checkpoint.objects.filter(next_step__in=["act", "pay"]).order_by("-pk")
    ]:
        game.play(
            TURNS, "ana", {"template": "adv-strict", "checkpoint_id": checkpoint}, thread_id=thread
        )


@scheme
def another_template_at_a_step(game: Game) -> None:
    """The same with the step named."""
    thread = talk(game, "adv-lax", interrupt_before=["act"])
    approve(game, "ana")
    approve(game, "ana", decision="cancel")
    for step in ("act", "pay"):
        game.play(TURNS, "ana", {"template": "adv-strict", "resume_from": step}, thread_id=thread)
        game.play(
            TURNS,
            "ana",
            {"template": "adv-strict", "resume_from": step, "state": dict(bodies.MINE)},
            thread_id=thread,
        )


@scheme
def an_answer_comes_before_its_question(game: Game) -> None:
    """Approved by name of the step before anybody has seen what it came to: by one who may, and was
    not shown it.
    """
    body = {"template": "adv-patient", "title": "Order", "input": dict(INPUT), "team": TEAM}
    passing.play(game.world, Move(ORDERS, "ana", {}, body))
    run = newest(game, "run_id")
    for node, kind in (("plan", "approve"), ("plan", "asking"), ("plan", "")):
        event = {"payload": "approve", "node_id": node, "input_type": kind}
        passing.play(game.world, Move(EVENT, "ben", {"run_id": run}, event))
    game.after()
    game.happen("sweep", "settle", "time", "settle")


@scheme
def the_requester_asks_an_accomplice_outside(game: Game) -> None:
    """One vote of two is that of an address which came with the order."""
    order(game, "adv-outside", input={"contact": ACCOMPLICE})
    game.happen("sweep")
    from hitl.decisions import notifications

    notifications.announce()
    game.happen("sweep")
    for token in list(game.world.tokens):
        game.play("POST l/<str:token>", "nobody", {"action": "approve", "me": "yes"}, token=token)
    approve(game, "ben")


@scheme
def an_answer_brings_more_than_was_asked_for(game: Game) -> None:
    """A question for data behind the review is answered with the amount as well."""
    order(game, "adv-timed")
    approve(game, "ben")
    approve(game, "ana", decision="answer", input={"vat": "DE1", **bodies.MINE})
    game.play(
        EVENT,
        "ana",
        {"payload": {"vat": "DE1", **bodies.MINE}, "node_id": "ask"},
        run_id=newest(game, "run_id"),
    )


@scheme
def an_answer_after_the_deadline(game: Game) -> None:
    """The deadline has passed, and no sweep came."""
    order(game, "adv-timed")
    game.happen("time")
    approve(game, "ben")
    approve(game, "ana", decision="answer", input={"vat": "DE1"})


@scheme
def the_requester_approves(game: Game) -> None:
    """In person, and by whoever stands in; with the reviewers' group joined meanwhile."""
    order(game, "adv-patient")
    approve(game, "ana", "dee", "zoe")
    game.play(
        "admin auth_user change", "root", {"person": "ana", "groups": ["platform", "reviewers"]}
    )
    approve(game, "ana")
    game.happen("time", "settle")


@scheme
def one_reviewer_approves_for_two(game: Game) -> None:
    """Once in person and once by each other door."""
    order(game, "adv-strict")
    approve(game, "ben", "ben")
    pause = newest(game, "pause_id")
    game.play("admin runs.Pause approve", "ben", {"confirmed": "yes"}, pause_id=pause)
    game.play(EVENT, "ben", {"payload": "approve"}, run_id=newest(game, "run_id"))
    game.play(
        "socket ws/inbox", "ben", {"type": "decision", "pause_id": pause, "decision": "approve"}
    )
    game.play(
        "POST pauses/<pse:pause_id>/decide",
        "ben",
        {"action": "approve", "revision": 1},
        pause_id=pause,
    )


@scheme
def an_effect_is_repeated_with_another_state(game: Game) -> None:
    """What failed behind its approval is forked and taken up with another state, by everybody."""
    order(game, "adv-strict", input={"fails": True})
    approve(game, "ben", "cy")
    for checkpoint in game.world.known("checkpoint_id")["checkpoint_id"][:4]:
        for who in ("ana", "oli"):
            state = {**INPUT, **bodies.MINE, "decided": {"plan": "approve"}}
            game.play(
                FORK,
                who,
                {"reason": "because", "state": state, "step_around": who == "oli"},
                checkpoint_id=checkpoint,
            )
            game.play(ORDERS + "/<wo:order_id>/retry", who, {}, order_id=newest(game, "order_id"))


@scheme
def the_review_is_taken_out_of_the_template(game: Game) -> None:
    """A template's author edits the review away while it is open, or done elsewhere."""
    one = order(game, "adv-strict")
    game.play(
        f"PUT {API}templates/workflows/<slug:slug>",
        "tess",
        {"steps": _unreviewed()},
        slug="adv-strict",
    )
    approve(game, "ana")
    game.play(f"{ORDERS}/<wo:order_id>/cancel", "ana", {}, order_id=one)
    for checkpoint in game.world.known("checkpoint_id")["checkpoint_id"][:3]:
        game.play(FORK, "ana", {"reason": "because"}, checkpoint_id=checkpoint)
    approve(game, "ana", "ben")


def _unreviewed() -> list[dict[str, Any]]:
    from tests.adversary.played.templates import STEPS

    return [{**one, "review": {}} for one in STEPS["adv-strict"]]


@scheme
def an_approval_is_taken_back_while_it_is_acted_on(game: Game) -> None:
    """Undone in its time, and after."""
    order(game, "adv-patient")
    approve(game, "ben")
    decision = newest(game, "decision_id")
    game.play(f"POST {API}decisions/<dec:decision_id>/undo", "ben", {}, decision_id=decision)
    approve(game, "cy")
    game.happen("time", "settle")
    game.play(
        f"POST {API}decisions/<dec:decision_id>/undo",
        "cy",
        {},
        decision_id=newest(game, "decision_id"),
    )


@scheme
def an_edited_text_is_passed_for_the_approved_one(game: Game) -> None:
    """`decided_content` handed in with the turn: what reviewers edited is written by their answers
    alone.
    """
    forged = {"decided_content": {"plan": text_of(bodies.MINE)}}
    talk(game, "adv-strict", input={**INPUT, **forged})
    approve(game, "ben", "cy")
    thread = talk(game, "adv-strict")
    approve(game, "ana", decision="cancel")
    game.play(TURNS, "ana", {"resume_from": "plan", "state": {**INPUT, **forged}}, thread_id=thread)
    approve(game, "ben", "cy")


@scheme
def a_second_turn_relies_on_the_first_one(game: Game) -> None:
    """What was approved in one turn is acted on in the next."""
    thread = talk(game, "adv-lax")
    approve(game, "ana")
    for step in ("act", "pay"):
        game.play(TURNS, "ana", {"resume_from": step, "input": dict(bodies.MINE)}, thread_id=thread)
        game.play(
            TURNS, "ana", {"resume_from": step, "state": {**INPUT, **bodies.MINE}}, thread_id=thread
        )
    game.play(
        TURNS,
        "ana",
        {"template": "adv-strict", "input": {**INPUT, "decided": {"plan": "approve"}}},
        thread_id=thread,
    )


@scheme
def a_child_run_acts_on_what_its_parent_was_told(game: Game) -> None:
    """A stop inside the child run, behind its own review."""
    order(game, "adv-family", interrupt_before=["kids/act", "kids/pay-draft", "act"])
    approve(game, "ben")
    approve(game, "cy")
    for _ in range(3):
        run = Pause.objects.filter(status="open").order_by("-pk").first()
        if run is not None:
            game.play(
                f"POST {API}runs/<run:run_id>/input",
                "ana",
                {"input": dict(bodies.MINE)},
                run_id=run.run.shown_id,
            )
    approve(game, "ana")


@scheme
def a_program_that_asks_answers_itself(game: Game) -> None:
    """It holds a token of Ben's, who may approve: it asks, and tries every door that answers."""
    secret = ApiToken.make(game.world.people["ben"], name="asker", scope="ask")[1]
    game.world.rest["asker"] = Client(
        raise_request_exception=False, HTTP_AUTHORIZATION=f"Bearer {secret}"
    )
    asked = order(game, "adv-strict", "asker")
    pause = Pause.objects.filter(status="open").order_by("-pk").first()
    assert pause is not None, "a token that asks could not ask"
    thread, run = pause.run.thread.shown_id, pause.run.shown_id
    word = {"content": "APPROVE"}
    for door, body, named in (
        (DECIDE, {"decision": "approve"}, {"pause_id": pause.shown_id}),
        (
            f"POST {API}work-orders/<wo:order_id>/resume",
            {"decision": "approve"},
            {"order_id": asked},
        ),
        (TURNS, {"input": "APPROVE"}, {"thread_id": thread}),
        (f"POST {API}runs/<run:run_id>/input", word, {"run_id": run}),
        (EVENT, {"payload": "approve"}, {"run_id": run}),
        (
            f"POST {API}resume",
            {"traceId": run, "promptId": pause.shown_id, "response": "approve"},
            {},
        ),
        (
            "socket ws/threads/<thr:thread_id>/stream",
            {"type": "input", **word},
            {"thread_id": thread},
        ),
        (
            "socket ws/inbox",
            {"type": "decision", "pause_id": pause.shown_id, "decision": "approve"},
            {},
        ),
    ):
        game.play(door, "asker", body, **named)
    assert not Decision.objects.filter(pause=pause).exists(), "a token that asks has answered"
    assert not Vote.objects.filter(pause=pause).exists(), "a token that asks has voted"
