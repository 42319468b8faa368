"""`smart-booking` on the real engine: what books itself, what waits for whom, and that every entry is made once."""

from __future__ import annotations

from decimal import Decimal

import pytest

from runs.workflows import invoice_samples as samples
from tests.booking import House, asked, state_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def house(make_order, settings, tmp_path, ana):
    settings.WAYSTATION_SHARED = tmp_path / "shared"
    settings.WAYSTATION_FILES = [tmp_path / "inbox"]
    return House(make_order, tmp_path, ana)


def test_try(house):
    for f in (
        samples.correct,
        samples.without_order,
        samples.without_vat_id,
        samples.wrong_total,
        samples.unknown_supplier,
        samples.credit_note,
        samples.foreign_currency,
        samples.fifty_lines,
        samples.correct,
    ):
        o = house.book(f())
        print(f.__name__, o.status, o.latest_run.error, o.phase)
        if o.status == "paused":
            from tests.conftest import pause_of

            p = pause_of(o)
            print(p.question)
            print(p.facts)
            print(p.content[:1500])
            print(asked(o))
            print(p.required_inputs if len(str(p.required_inputs)) < 2500 else "")
    for r in house.ledger():
        print(r)
    assert 0
