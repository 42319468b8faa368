"""Rules of one question: they narrow those of its step, and never widen them, whatever is named."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runs.workflows.refusals import FieldRefused
from runs.workflows.reviews import narrowing
from runs.workflows.reviews.rules import RISKS

NAMES = st.lists(st.sampled_from(["ana", "ben", "cleo"]), unique=True, max_size=3)
ACTORS = st.fixed_dictionaries({}, optional={"users": NAMES, "groups": NAMES})
DEADLINE = st.fixed_dictionaries(
    {"after": st.just("P1D")}, optional={"outcome": st.sampled_from(["expire", "approve"])}
)
KNOWN: dict[str, st.SearchStrategy[Any]] = {
    "reviewers": ACTORS,
    "quorum": st.integers(1, 3),
    "risk": st.sampled_from(RISKS),
    "self_approval": st.booleans(),
}
RULES = st.fixed_dictionaries(
    {},
    optional={
        **KNOWN,
        "deadline": DEADLINE,
        "link_answers": st.booleans(),
        "external": st.lists(st.just("eve@example.org"), max_size=1),
        "escalation": st.just([{"after": "PT1H", "groups": ["heads"]}]),
    },
)
WANTED = st.fixed_dictionaries({}, optional={**KNOWN, "undo": st.just(1)})


def risk(rules):
    return RISKS.index(rules.get("risk", "normal"))


@given(rules=RULES, wanted=WANTED)
def test_narrowed_rules_ask_nothing_less(rules, wanted):
    try:
        asked: dict[str, Any] = {**narrowing.narrow(rules, wanted)}
    except FieldRefused:
        return
    assert asked.get("quorum", 1) >= rules.get("quorum", 1)
    assert risk(asked) >= risk(rules)
    assert rules.get("self_approval", True) or not asked.get("self_approval", True)
    assert set(asked.get("external", [])) <= set(rules.get("external", []))
    if any(rules.get("reviewers", {}).values()) and asked.get("reviewers") != rules["reviewers"]:
        assert asked["within"] == rules["reviewers"]
        theirs = set(rules["reviewers"].get("groups", []))
        assert set(asked["reviewers"].get("groups", [])) <= theirs
    if risk(asked) == RISKS.index("high") and risk(rules) < risk(asked):
        assert not asked.get("external")
        assert asked.get("deadline", {}).get("outcome") != "approve"
    if risk(asked) > RISKS.index("low") and risk(rules) == RISKS.index("low"):
        assert not asked.get("link_answers")
    kept = {"deadline", "link_answers", "external", "escalation"}
    assert {key for key in rules if key in kept} == {key for key in asked if key in kept}
    assert narrowing.is_narrowed(rules, asked)


@given(rules=RULES, asked=RULES)
def test_rules_that_are_not_made_by_narrowing_are_none_of_the_step(rules, asked):
    """What an approval is held against: only the same rules, or those that `narrow` gives."""
    assert narrowing.is_narrowed(rules, asked) == (rules == asked)


@given(rules=RULES, wanted=WANTED, change=RULES)
def test_narrowed_rules_that_were_changed_afterwards_are_none(rules, wanted, change):
    try:
        asked: dict[str, Any] = {**narrowing.narrow(rules, wanted)}
    except FieldRefused:
        return
    changed = {**asked, **change}
    if not narrowing.is_narrowed(rules, changed):
        return
    again = {key: changed[key] for key in narrowing.KEYS if key in changed}
    assert changed in (rules, narrowing.narrow(rules, again))
