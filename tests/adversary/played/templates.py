"""The templates of the game, whose rules name its people."""

from __future__ import annotations

from typing import Any

from runs import definitions
from tests.adversary.played import reviewed as reviewed
from tests.adversary.played import steps as steps
from tests.adversary.played.book import REVIEWERS, SUPPLIER

BY_TWO = {"reviewers": {"groups": [REVIEWERS]}, "quorum": 2, "self_approval": False}
BY_ONE = {"reviewers": {"groups": [REVIEWERS]}, "self_approval": False}
TIMED = {**BY_ONE, "deadline": {"after": "PT4H", "outcome": "expire"}, "edits": True}
PATIENT = {**BY_ONE, "undo": 3600}
SILENT = {
    "reviewers": {"users": ["cy"]},
    "deadline": {"after": "PT4H", "outcome": "approve"},
    "self_approval": False,
}
OUTSIDE = {**BY_TWO, "external": [SUPPLIER]}


DENY = {"name": "deny", "label": "Deny", "to": "pay"}
"""An answer that leads on and is no approval."""
WHEN = "the amount is under 15"


def asking(review: dict[str, Any], by: str = "adv-plan", **more: Any) -> dict[str, Any]:
    asked = {
        "step_type": "planning",
        "name": "plan",
        "step_template_slug": by,
        "pause_after": True,
        "pause_phase": "asking",
    }
    return {**asked, "review": review, **more}


def kind(name: str, slug: str = "", **more: Any) -> dict[str, Any]:
    return {
        "step_type": "execute",
        "name": name,
        "step_template_slug": slug or f"adv-{name}",
        **more,
    }


END = kind("end")
STEPS: dict[str, list[dict[str, Any]]] = {
    "adv-strict": [asking(BY_TWO), kind("act"), kind("pay"), END],
    "adv-lax": [asking({}), kind("act"), kind("pay"), END],
    "adv-free": [{**asking({}), "pause_after": False}, kind("act"), kind("pay"), END],
    "adv-timed": [asking(TIMED), kind("ask"), kind("act"), kind("pay"), END],
    "adv-patient": [asking(PATIENT), kind("act"), kind("pay"), END],
    "adv-silent": [asking(SILENT), kind("pay"), END],
    "adv-tools": [kind("call", review=BY_ONE), kind("act"), END],
    "adv-outside": [kind("plan", "adv-consult", review=BY_TWO), kind("pay"), END],
    "adv-supplier": [kind("plan", "adv-supplier", review=OUTSIDE), kind("pay"), END],
    "adv-family": [asking(BY_ONE), kind("kids"), kind("act"), kind("pay"), END],
    "adv-jumps": [asking(BY_ONE, by="adv-leave"), kind("rest"), kind("act"), kind("pay"), END],
    "adv-kin": [kind("kin"), kind("settle"), END],
    "adv-deny": [
        asking(BY_ONE, choices=[DENY, {**DENY, "name": "grant", "approves": True}]),
        kind("pay", "adv-pay-optional"),
        END,
    ],
    "adv-several": [kind("plan", "adv-several", review=BY_ONE), kind("pay"), END],
    "adv-twice": [
        asking(BY_ONE, name="first"),
        asking(BY_ONE, name="second", revise_to="pay", choices=[DENY]),
        kind("pay", "adv-pay-planned"),
        END,
    ],
    "adv-questions": [
        kind("first", "adv-first", review=BY_ONE),
        kind("second", "adv-second", review=BY_ONE),
        kind("pay", "adv-pay-answered"),
        END,
    ],
    "adv-pass": [asking(BY_ONE, by="adv-pass", may_pass=WHEN), kind("act"), kind("pay"), END],
    "adv-unpassable": [asking(BY_ONE, by="adv-pass"), kind("act"), kind("pay"), END],
    "adv-narrow": [asking(BY_ONE, by="adv-narrow"), kind("pay"), END],
    "adv-over": [kind("over"), asking(BY_ONE), kind("pay"), END],
    "adv-unknown": [asking(BY_ONE), kind("pay", "adv-pay-unknown"), END],
    "adv-spare": [
        {**asking({}), "pause_after": False},
        kind("pay", "adv-pay-optional"),
        END,
    ],
    "adv-heedless": [asking(BY_ONE), kind("heedless"), END],
}
"""Template → its steps: reviews with quorums, deadlines, undo and none; tool calls; people outside;
child runs that ask and act; steps that leave, pass and narrow their reviews, and effects that
require what nobody was asked.
"""
OF_REVIEWS = tuple(STEPS)[list(STEPS).index("adv-jumps") :]
"""The latter of them."""
INPUT = {"amount": 10, "to": "acme"}


KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        name: (name, {})
        for name in (
            *("plan", "ask", "act", "pay", "call", "end"),
            *("pass", "narrow", "over", "rest", "heedless", "settle", "finish"),
        )
    },
    "leave": ("leave", {"to": "act"}),
    "consult": ("consult", {"then": "pay"}),
    "supplier": ("consult", {"then": "pay", "to": SUPPLIER}),
    "several": ("several", {"then": "pay", "revise": "plan"}),
    "first": ("several", {"then": "second", "revise": "first"}),
    "second": ("several", {"then": "pay", "revise": "pay"}),
    "pay-draft": ("pay", {"of": "draft"}),
    "pay-planned": ("pay", {"of": "adversary.plan"}),
    "pay-answered": ("pay", {"of": "adversary.several"}),
    "pay-unknown": ("pay", {"of": "plam"}),
    "pay-optional": ("pay", {"optional": True}),
}
"""Step template, without its `adv-` → its function, without its `adversary.`, and configuration."""
INNER = {
    "kids": [asking(BY_ONE, name="draft"), kind("act"), kind("pay-draft")],
    "kin": [asking(BY_ONE, by="adv-finish", name="draft", may_pass=WHEN), kind("rest")],
}
"""The same of those that start child runs → their sub-steps."""


def load() -> None:
    """The step templates and templates of a game."""
    for slug, (function, config) in KINDS.items():
        definitions.edit_step_template(
            f"adv-{slug}",
            title=slug.capitalize(),
            function=f"adversary.{function}",
            config=config,
        )
    for slug, inner in INNER.items():
        definitions.edit_step_template(
            f"adv-{slug}", title=slug.capitalize(), config={"into": slug}, sub_steps=inner
        )
    for slug, listed in STEPS.items():
        definitions.edit_template(slug, steps=listed, title=slug, needs_repository=False)
