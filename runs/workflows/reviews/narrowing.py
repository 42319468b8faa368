"""The rules of one question, narrowed by the step that asks it (`Report.review`, `Ask.review`).
Pure.

A question may ask fewer people, more of them, or with more care than its step's rules say: it names
`reviewers`, a higher `quorum`, a higher `risk`, and forbids `self_approval`. It never widens them.
Where the step's rules name reviewers, these stand in the narrowed rules as `within`: whoever is to
answer is named by both. Whom the escalation of the rules adds later is still added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from jsonschema import Draft202012Validator

from runs.workflows import refusals
from runs.workflows.refusals import FieldRefused, in_json
from runs.workflows.reviews import stages
from runs.workflows.reviews.review import Review
from runs.workflows.reviews.rules import RISKS, SCHEMA

KEYS = ("reviewers", "quorum", "risk", "self_approval")
_SCHEMA = {
    "type": "object",
    "properties": {key: SCHEMA["properties"][key] for key in KEYS},
    "additionalProperties": False,
}


def narrow(rules: Review | Mapping[str, Any], wanted: Any) -> Review:
    """The rules of a question that wants these in addition.

    Raises FieldRefused where `wanted` is no review, or would widen the rules.
    """
    for error in Draft202012Validator(_SCHEMA).iter_errors(wanted):
        raise FieldRefused(*refusals.config_fault(error))
    wanted = {key: value for key, value in wanted.items() if value != rules.get(key)}
    narrowed: dict[str, Any] = dict(rules)
    if stages.of(rules) and (staged := {"reviewers", "quorum"} & wanted.keys()):
        raise FieldRefused(min(staged), "The rules of this step have stages, which name their own.")
    if any(wanted.get("reviewers", {}).values()):
        narrowed |= _named(rules, wanted["reviewers"])
    if "quorum" in wanted:
        if wanted["quorum"] < rules.get("quorum", 1):
            raise FieldRefused("quorum", f"The rules of this step ask for {rules['quorum']}.")
        narrowed["quorum"] = wanted["quorum"]
    if "risk" in wanted:
        narrowed |= _riskier(rules, narrowed, wanted["risk"])
    if "self_approval" in wanted:
        if wanted["self_approval"] and not rules.get("self_approval", True):
            raise FieldRefused("self_approval", "The rules of this step forbid that.")
        narrowed["self_approval"] = wanted["self_approval"]
    if narrowed != dict(rules):
        narrowed["narrowed"] = True
    return cast(Review, narrowed)


def _named(rules: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    theirs = rules.get("reviewers", {})
    others: dict[str, Any] = {"external": []} if rules.get("external") else {}
    if not any(theirs.values()):
        return {"reviewers": dict(named), **others}
    for group in named.get("groups", []):
        if group not in theirs.get("groups", []):
            raise FieldRefused(
                "reviewers.groups",
                f"The rules of this step do not name the group {in_json(group)}.",
            )
    return {"reviewers": dict(named), "within": dict(theirs), **others}


def _riskier(rules: Mapping[str, Any], narrowed: Mapping[str, Any], risk: str) -> dict[str, Any]:
    """The risk, less what the rules allow of questions of a lower one."""
    before = rules.get("risk", "normal")
    if RISKS.index(risk) < RISKS.index(before):
        raise FieldRefused("risk", f"The rules of this step say {before}.")
    changed: dict[str, Any] = {"risk": risk}
    if risk != "low" and rules.get("link_answers"):
        changed["link_answers"] = False
    if risk == "high":
        if narrowed.get("external"):
            changed["external"] = []
        if rules.get("deadline", {}).get("outcome") == "approve":
            changed["deadline"] = {**rules["deadline"], "outcome": "expire"}
    return changed


def is_narrowed(rules: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Whether a question that was asked by the rules `asked` was asked by these, or by these
    narrowed.
    """
    if dict(rules) == dict(asked):
        return True
    wanted = {key: asked[key] for key in KEYS if key in asked and asked[key] != rules.get(key)}
    try:
        return bool(wanted) and dict(narrow(rules, wanted)) == dict(asked)
    except FieldRefused:
        return False
