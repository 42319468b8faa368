"""Attacks on reviews that belong to their template: steps that leave, pass or narrow them, answers
that are no approvals, and effects that require what nobody was asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.adversary.played.book import REVIEWERS, TEAM
from tests.adversary.played.templates import INPUT
from tests.adversary.schemes import (
    FORK,
    ORDERS,
    SCHEMES,
    TURNS,
    approve,
    newest,
    order,
    scheme,
    talk,
)
from tests.matrix.addresses import API

if TYPE_CHECKING:
    from tests.adversary.machine import Game


@scheme
def a_step_leaves_its_review_by_every_way(game: Game) -> None:
    """By a jump, by a timer, and by a question about data; nobody but the requester answers."""
    for leave in ("go", "sleep", "ask"):
        order(game, "adv-jumps", input={"leave": leave})
        approve(game, "ana")
        approve(game, "ana", decision="answer")
        game.happen("time", "settle")


@scheme
def a_child_run_ends_without_its_review(game: Game) -> None:
    """Its step is done, and what its parent does relies on that."""
    order(game, "adv-kin")
    approve(game, "ana")
    order(game, "adv-kin", input={"amount": 20, "hurry": True})
    approve(game, "dee")


@scheme
def an_effect_requires_what_nobody_was_asked(game: Game) -> None:
    """Of a step that does not ask, of one that was jumped over, and of one that there is not."""
    for template in ("adv-free", "adv-over", "adv-spare", "adv-unknown"):
        order(game, template)
        approve(game, "ben")
        game.play(f"{ORDERS}/<wo:order_id>/retry", "ana", {}, order_id=newest(game, "order_id"))


@scheme
def a_refusal_leads_on_to_the_effect(game: Game) -> None:
    """Every answer of the template and of the step leads on, and not every one is an approval."""
    for template in ("adv-deny", "adv-several"):
        for word in ("deny", "grant", "allow"):
            order(game, template)
            approve(game, "ben", decision=word)
            game.play(f"{ORDERS}/<wo:order_id>/retry", "ana", {}, order_id=newest(game, "order_id"))


@scheme
def a_step_passes_what_its_template_does_not_let_it(game: Game) -> None:
    """Without a word in the template, and what is of high risk."""
    order(game, "adv-unpassable")
    order(game, "adv-pass", input={"risky": True})
    order(game, "adv-pass")


@scheme
def a_step_passes_what_a_person_wrote_into_its_state(game: Game) -> None:
    """At a stop before it, of a run and of a child run's parent."""
    for template, stop in (("adv-pass", "plan"), ("adv-kin", "kin"), ("adv-kin", "kin/draft")):
        given = {"amount": 20, "hurry": True}
        talk(game, template, input={**INPUT, **given}, interrupt_before=[stop])
        thread = newest(game, "thread_id")
        game.play(TURNS, "ana", {"input": {"amount": 5, "to": "mallory"}}, thread_id=thread)
        run = newest(game, "run_id")
        game.play(f"POST {API}runs/<run:run_id>/input", "ana", {"input": {"amount": 5}}, run_id=run)
        game.play(
            FORK,
            "ana",
            {"reason": "because", "state": {"amount": 5, "to": "mallory"}},
            checkpoint_id=newest(game, "checkpoint_id"),
        )


@scheme
def a_question_asks_others_than_its_template(game: Game) -> None:
    """The requester has it narrowed, and widened; whoever the template or the question does not
    name tries to answer.
    """
    for how in ("cy", "two", "dee", "team", "me"):
        order(game, "adv-narrow", input={"narrow": how})
        approve(game, "ana", "dee", "ben", "ben")


@scheme
def who_left_the_group_answers_by_name(game: Game) -> None:
    """Named by the question, and by the template no more."""
    order(game, "adv-narrow")
    door = "admin auth_user change"
    game.play(door, "root", {"person": "cy", "groups": [TEAM]})
    approve(game, "cy")
    game.play(door, "root", {"person": "cy", "groups": [REVIEWERS]})


@scheme
def an_earlier_approval_stands_for_a_later_refusal(game: Game) -> None:
    """Of two questions of one function, the first approved."""
    for template in ("adv-twice", "adv-questions"):
        for word in ("revise", "deny"):
            order(game, template)
            approve(game, "ben")
            approve(game, "cy", decision=word, feedback="no")


@scheme
def an_effect_behind_a_review_asks_for_no_approval(game: Game) -> None:
    order(game, "adv-heedless")
    approve(game, "ben")


OF_REVIEWS = [one for one in SCHEMES.values() if one.__module__ == __name__]
