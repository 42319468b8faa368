"""Each fault can still be planted: else it would prove nothing."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.planted.__main__ import FAULTS, ROOT


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_stands_at_one_place_and_files_are_there_to_notice_it(fault):
    assert (ROOT / fault.path).read_text().count(fault.was) == 1
    assert fault.was != fault.becomes
    for place in fault.noticed_by:
        assert (ROOT / place.partition("::")[0]).exists(), place


def test_there_are_sixty_and_more_each_with_a_name_of_its_own():
    assert len(FAULTS) >= 60
    assert max(Counter(fault.name for fault in FAULTS).values()) == 1
