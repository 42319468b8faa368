"""Icons as their library draws them."""

from __future__ import annotations

import pytest
from lucide.templatetags.lucide import lucide

from hitl.rendering.icons import icon


@pytest.mark.parametrize("name", ["check", "circle-pause", "loader-circle"])
def test_an_icon_is_drawn_as_its_library_draws_it(name: str) -> None:
    drawn = lucide(name, size=14, class_="spin", aria_hidden="true")
    assert icon(name, 14, class_="spin") == drawn


def test_an_icon_that_there_is_not_is_named() -> None:
    with pytest.raises(KeyError, match=r"no-such-icon\.svg"):
        icon("no-such-icon", 14)
