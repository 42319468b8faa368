"""Which tool calls a person is asked about (S2-26): rules in order, and what becomes of arguments
that a rule cannot compare.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from runs.agents import approval
from runs.agents.approval import ApprovalRule, Argument, Risk, RulesRefused, explain, parse

pytestmark = pytest.mark.one_database


@dataclass(frozen=True)
class Pay:
    name: str = "pay"
    risk: str = "normal"
    approval: tuple[ApprovalRule, ...] = ()


def asks(rules: list[dict[str, Any]], arguments: dict[str, Any], tool: Pay | None = None) -> bool:
    return explain(tool or Pay(), arguments, parse(rules)).ask


def about(
    op: str, value: Any = None, *, ask: bool = True, argument: str = "/amount"
) -> dict[str, Any]:
    return {
        "when": {"argument": argument, "op": op, **({} if op == "exists" else {"value": value})},
        "ask": ask,
    }


def test_the_first_rule_that_matches_decides_and_says_why() -> None:
    """S2-26."""
    rules = parse([
        {"tool": "other", "when": "always", "ask": True, "why": "not this tool"},
        {"tool": "pay", "when": {"argument": "/amount", "op": "lt", "value": 10}, "ask": False,
        "why": "small change"},
        {"when": "always", "ask": True, "why": "money"},
    ])  # fmt: skip
    small, large = explain(Pay(), {"amount": 5}, rules), explain(Pay(), {"amount": 50}, rules)
    assert (small.ask, small.why, small.place) == (False, "small change", "approvals.1")
    assert (large.ask, large.why, large.place) == (True, "money", "approvals.2")
    assert large.rule == rules[2]


def test_the_rules_of_the_step_come_before_the_tools_own() -> None:
    tool = Pay(approval=(ApprovalRule(ask=True, why="its own"),))
    assert explain(tool, {}).place == "tool.0"
    assert explain(tool, {}, parse([{"when": "always", "ask": False}])).ask is False


def test_where_no_rule_matches_only_high_risk_asks() -> None:
    high, normal = explain(Pay(risk="high"), {}), explain(Pay(), {})
    assert (high.ask, normal.ask, high.rule, normal.rule) == (True, False, None, None)
    assert "pay is a tool of high risk" in high.why


@pytest.mark.parametrize(
    ("op", "value", "argument", "matches"),
    [
        ("equals", 5, 5, True),
        ("equals", 5, 5.0, True),
        ("equals", 1, True, False),
        ("equals", {"a": [1]}, {"a": [1]}, True),
        ("equals", {"a": [1]}, {"a": [True]}, False),
        ("in", ["eur", "chf"], "eur", True),
        ("in", [0, 1], True, False),
        ("contains", "@evil", "me@evil.example", True),
        ("contains", 3, [1, 2, 3], True),
        ("contains", "cc", {"cc": ""}, True),
        ("matches", "^a+$", "aaa", True),
        ("matches", "^a+$", "b", False),
        ("gt", 10, 11, True),
        ("gt", 10, 10, False),
        ("lt", 10, 9.5, True),
        ("exists", None, None, True),
    ],
)
def test_each_comparison_goes_by_json(op: str, value: Any, argument: Any, matches: bool) -> None:
    assert asks([about(op, value)], {"amount": argument}) is matches


@pytest.mark.parametrize(
    ("op", "value", "argument"),
    [("gt", 10, "9"), ("lt", 10, True), ("matches", "^x", 7), ("contains", "x", 7)],
)
def test_what_cannot_be_compared_is_asked_about_and_never_waved_through(
    op: str, value: Any, argument: Any
) -> None:
    """F6: a model writes "1e9" where a number belongs, and passes no limit by that."""
    assert asks([about(op, value, ask=True)], {"amount": argument})
    assert asks(
        [about(op, value, ask=False), {"when": "always", "ask": True}], {"amount": argument}
    )


def test_a_pointer_leads_into_objects_and_lists_and_an_argument_that_is_not_there_matches_nothing() -> (
    None
):
    arguments = {"to": [{"a/b": {"~": "boss"}}]}
    assert asks([about("equals", "boss", argument="/to/0/a~1b/~0")], arguments)
    for pointer in ("/to/1", "/to/-1", "/to/x", "/cc", "/to/0/a", "/to/99999999999"):
        assert not asks([about("exists", argument=pointer)], arguments), pointer


def test_a_rule_by_risk_means_at_least_where_it_asks_and_at_most_where_it_lets_pass() -> None:
    assert asks([{"when": {"risk": "normal"}, "ask": True}], {}, Pay(risk="high"))
    assert not asks([{"when": {"risk": "normal"}, "ask": True}], {}, Pay(risk="low"))
    assert asks([{"when": {"risk": "low"}, "ask": False}], {}, Pay(risk="high"))
    assert not asks([{"when": {"risk": "low"}, "ask": False}], {}, Pay(risk="low"))


def test_a_rule_that_does_not_say_why_is_put_into_words() -> None:
    verdicts = [
        explain(Pay(), {"amount": 5}, (ApprovalRule(ask=True, when=when),))
        for when in ("always", Risk(risk="low"), BIG)
    ]
    assert [verdict.why for verdict in verdicts] == [
        "A person is asked about every call of any tool.",
        "A person is asked: pay is a tool of normal risk.",
        "A person is asked: a rule speaks of /amount (gt 1).",
    ]


BIG = Argument(pointer="/amount", op="gt", value=1)


@pytest.mark.parametrize(
    ("rule", "place"),
    [
        ("always", "0"),
        ({"when": "always"}, "0.ask"),
        ({"when": "always", "ask": "yes"}, "0.ask"),
        ({"when": "sometimes", "ask": True}, "0.when"),
        ({"when": {"risk": "huge"}, "ask": True}, "0.when.risk"),
        ({"when": {"argument": "amount", "op": "gt", "value": 1}, "ask": True}, "0.when.argument"),
        ({"when": {"argument": "/amount", "op": "over", "value": 1}, "ask": True}, "0.when.op"),
        ({"when": {"argument": "/amount", "op": "gt"}, "ask": True}, "0.when.value"),
        ({"when": {"argument": "/amount", "op": "gt", "value": "1"}, "ask": True}, "0.when.value"),
        ({"when": {"argument": "/amount", "op": "in", "value": 1}, "ask": True}, "0.when.value"),
        (
            {"when": {"argument": "/amount", "op": "matches", "value": "(?=a)"}, "ask": True},
            "0.when.value",
        ),
        (
            {"when": {"argument": "/amount", "op": "exists", "value": 1}, "ask": True},
            "0.when.value",
        ),
        ({"when": "always", "ask": True, "tool": 7}, "0.tool"),
        ({"when": "always", "ask": True, "why": "x" * 301}, "0.why"),
        ({"when": "always", "ask": True, "unless": 1}, "0.unless"),
    ],
)
def test_a_rule_that_cannot_be_followed_is_refused_by_its_place(rule: Any, place: str) -> None:
    with pytest.raises(RulesRefused) as refused:
        parse([rule])
    assert list(refused.value.errors) == [place]
    assert place in str(refused.value)


@pytest.mark.parametrize(
    "rules", ["always", {"when": "always"}, [{"when": "always", "ask": True}] * 101]
)
def test_rules_are_a_list_of_bounded_length(rules: Any) -> None:
    with pytest.raises(RulesRefused):
        parse(rules)


def test_a_rule_reads_as_it_was_written() -> None:
    written = [
        {"tool": "pay", **about("gt", 1), "why": "big"},
        {"when": {"risk": "high"}, "ask": False, "why": ""},
        about("exists"),
    ]
    again = [rule.as_json() for rule in parse(written)]
    assert again == [written[0], written[1], {**written[2], "why": ""}]
    assert approval.parse(again) == parse(written)
