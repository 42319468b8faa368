"""What rows say of a question: names that are filled in, and how a text begins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.workflows.text import filled, first_sentence

LONGEST = 300


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("Refund {amount} to {customer_name}?", "Refund 120 EUR to Ana?"),
        ("{AMOUNT}", "120 EUR"),
        ("{days} days", "3 days"),
        ("Refund {nothing}?", "Refund {nothing}?"),
        ("{flag} {list}", "{flag} {list}"),
        ("{} {{amount}}", "{} {120 EUR}"),
    ],
)
def test_names_are_filled_in_and_what_is_unknown_stays_as_it_is_written(words, said):
    facts = {"Amount": "120 EUR", "Customer name": "Ana"}
    assert filled(words, facts, {"amount": "another", "days": 3, "flag": True, "list": []}) == said


@pytest.mark.parametrize(
    ("text", "said", "whole"),
    [
        ("", "", True),
        ("Refund **120 EUR** to `Ana`.", "Refund 120 EUR to Ana.", True),
        ("# Plan 1\n\nfirst", "Plan 1: first", True),
        ("# Plan\n\nOne. Two.", "Plan: One.", False),
        (r"Order PO\-9999 is not ours\.", "Order PO-9999 is not ours.", True),
        ("Costs 3.5 EUR. Then more.", "Costs 3.5 EUR.", False),
        ("[Pay](https://evil.example)", "Pay", False),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n\nThe sum is 3.", "The sum is 3.", False),
        ("One line\nand another", "One line", False),
        ("x" * 400, "x" * 299 + "…", False),
    ],
)
def test_a_text_begins_with_its_first_sentence(text, said, whole):
    assert first_sentence(text, LONGEST) == (said, whole)


@given(st.text(max_size=500))
def test_of_any_text_the_beginning_is_short_and_one_line(text):
    said, whole = first_sentence(text, LONGEST)
    assert len(said) <= LONGEST
    assert said.isprintable() or not said
    if whole and text.strip():
        assert len([line for line in text.splitlines() if line.strip()]) <= 2
