"""One supplier's invoice twice under two numbers: what a person takes for the same number is asked,
and what is the same number stays a duplicate.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extensions.booking import reviewed, steps
from extensions.einvoice.model import Invoice
from extensions.einvoice.numbers import folded, looks_like
from extensions.einvoice.sums import added_up
from tests.conftest import pause_of
from tests.extensions.booking.houses import house as house
from tests.worlds.books import invoices
from tests.worlds.books.booking import asked

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]
D = Decimal

ALIKE = [
    ("RE-2026-0041", "RE-2026-41", "zeros in front of a group"),
    ("0041", "41", "zeros in front"),
    ("RE0041", "RE-41", "zeros behind letters, and a separator"),
    ("RE-2026-1041", "RE20261041", "separators"),
    ("2026/10/41", "2026-1041", "some of the separators"),
    ("RE_2026_1041", "RE-2026-1041", "a separator that is part of a word"),
    ("re20261041", "RE-2026-1041", "case, and separators"),
    ("RE-1O41", "RE-1041", "O and 0"),
    ("RE-104O", "RE-1040", "O and 0 at the end"),
    ("RE-l041", "RE-1041", "l and 1"),
    ("RE-I041", "RE-1041", "I and 1"),
    ("O41", "41", "O in front"),
    ("R\u00c9-1041", "RE-1041", "accents"),
    ("\uff32\uff25-1041", "RE-1041", "wide letters"),
    ("\u0420\u0415-1041", "PE-1041", "letters of Cyrillic"),
]
SAME = [("re-2026-1041", "RE-2026-1041"), ("RE 2026/1041", "RE-2026-1041"), ("(7)", "7")]
OTHERS = [
    ("RE-2026-1041", "RE-2026-1042"),
    ("RE-2026-101", "RE-2026-1001"),
    ("RE-2026-1041", "RE-2025-1041"),
    ("RE-1041", "GS-1041"),
    ("1041", "10410"),
    ("7", "17"),
    ("--", "++"),
    ("", "0"),
]


@pytest.mark.parametrize(
    ("one", "other"), [row[:2] for row in ALIKE], ids=[row[2] for row in ALIKE]
)
def test_numbers_that_a_person_takes_for_each_other(one, other):
    assert looks_like(one, other) and looks_like(other, one)


@pytest.mark.parametrize(("one", "other"), [*SAME, *OTHERS])
def test_numbers_that_are_the_same_or_are_others(one, other):
    """The exact duplicate is what it was: whichever case and separators."""
    assert not looks_like(one, other) and not looks_like(other, one)
    assert (folded(one) == folded(other)) == ((one, other) in [*SAME, ("--", "++")])


@given(st.integers(1, 10**9), st.integers(1, 10**9), st.sampled_from(["", "RE-", "2026/"]))
def test_two_numbers_of_one_series_are_told_apart(one, other, series):
    """A supplier's next invoice is no duplicate."""
    assert not looks_like(f"{series}{one}", f"{series}{other}")
    padded = looks_like(f"{series}{one:012}", f"{series}{other}")
    assert padded == (one == other)


def paper(number: str, price: str = "5.00", **changes: Any) -> Invoice:
    """A small invoice on no order, which is sure."""
    named = {"number": number, "order": None, **changes}
    line = invoices.line(1, "Paper", "1", price)
    return added_up(replace(invoices.correct(), **named), [line])


def test_a_zero_in_front_is_asked_and_a_yes_is_remembered(house):
    """RE-041 was booked beside RE-41 without a word: paid twice."""
    first = house.book(paper("RE-41"))
    order = house.book(paper("RE-041"))
    assert (order.status, asked(order)[1]) == ("paused", ["not_near_duplicate"])
    shown = pause_of(order).content.replace("\\", "")
    assert "Its number is much like that of another invoice: RE-41 of 2026-11-02 over" in shown
    assert f"over 5.95 EUR was booked by {first.shown_id}; this one is RE-041" in shown
    order = house.answer(order, {"not_near_duplicate": True})
    assert (order.status, len(house.ledger())) == ("completed", 6)
    # a third one is another's question, and says both
    third = house.book(paper("RE-0041"))
    assert asked(third)[1] == ["not_near_duplicate"]
    assert pause_of(third).content.count("was booked by") == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "the same date and amount"),
        ({"price": "7.00"}, "another amount"),
        ({"issued": "2026-11-09"}, "another date"),
        ({"issued": "2026-11-09", "price": "7.00"}, "another date and amount"),
    ],
)
def test_the_question_says_whether_date_and_amount_are_others(house, changes, words):
    house.book(paper("RE-41"))
    order = house.book(paper("RE41", **changes))
    assert f"EUR: {words}." in pause_of(order).content.replace("\\", "")


def test_a_rejected_one_is_booked_nowhere_and_asked_about_no_further(house):
    house.book(paper("RE-41"))
    house.answer(house.book(paper("RE-041")), action="reject")
    assert len(house.ledger()) == 3
    assert house.book(paper("RE-42")).status == "completed"


def test_another_suppliers_number_is_no_duplicate(house):
    house.book(paper("RE-41"))
    line = invoices.line(1, "Frame", "1", "5.00")
    steel = invoices.draft(invoices.STEEL, invoices.STEEL_IBAN, "RE-041")
    assert house.book(added_up(steel, [line])).status == "completed"


def test_one_that_is_booked_in_between_is_seen_before_the_entry(house, monkeypatch):
    """The books are read again where the money moves."""
    original = reviewed.pass_or_ask
    others: list[Any] = []

    def meanwhile(*given: Any) -> Any:
        if not others:
            others.append(None)
            others[0] = house.book(paper("RE-41"))
        return original(*given)

    monkeypatch.setattr(steps, "pass_or_ask", meanwhile)
    order = house.book(paper("RE-041"))
    assert (order.status, asked(order)[1]) == ("paused", ["not_near_duplicate"])
    assert len(house.ledger()) == 3
