"""What a person sees of a page: which colour something has, which icon it bears, whether a button's
spinner turns.
"""

from __future__ import annotations

import colorsys
import re
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Locator, Page, Route, expect

ICONS = {
    "check": ["M20 6 9 17l-5-5"],
    "edit": [
        (
            "M21.174 6.812a1 1 0 0 0-3.986-3.987L3.842 16.174a2 2 0 0 0-.5.83l-1.321 4.352a.5.5 "
            "0 0 0 .623.622l4.353-1.32a2 2 0 0 0 .83-.497z"
        ),
        "m15 5 4 4",
    ],
    "x": ["M18 6 6 18", "m6 6 12 12"],
}
"""The lines of which an icon consists, as they were looked at: a tick, a pencil, a cross."""
COLOURS = {"red": (345, 15), "yellow": (45, 65), "green": (90, 165)}
"""From which degree to which of the colour circle a colour has its name. Amber is 38."""
SPINNER = """button => {
  const ring = getComputedStyle(button, "::before"), [turn] = button.getAnimations({ subtree: true });
  const icons = [...button.querySelectorAll("svg")].filter((icon) => icon.getClientRects().length);
  const opened = ring.borderRightColor !== ring.borderTopColor; // else it is not seen that it turns
  return {
    drawn: ring.content !== "none" && ring.borderTopLeftRadius === "50%" && parseFloat(ring.width) >= 12 && opened,
    turns: turn?.playState === "running" && turn.effect.pseudoElement === "::before" && turn.effect.getTiming().iterations === Infinity,
    seen: button.checkVisibility({ opacityProperty: true, visibilityProperty: true }),
    icons: icons.length,
  };
}"""


def style(of: Locator, name: str) -> str:
    return str(of.evaluate("(it, name) => getComputedStyle(it)[name]", name))


def is_coloured(css: str, name: str) -> bool:
    """Whether a computed colour is what people call red, yellow or green: solid, no grey, and of
    that part of the colour circle.
    """
    red, green, blue, *alpha = [float(number) for number in re.findall(r"[\d.]+", css)]
    assert css.startswith("rgb"), css
    hue, _, saturation = colorsys.rgb_to_hls(red / 255, green / 255, blue / 255)
    first, last = COLOURS[name]
    degree = round(hue * 360)
    inside = first <= degree <= last if first < last else degree >= first or degree <= last
    return inside and saturation >= 0.4 and alpha in ([], [1.0])


def icon(of: Locator) -> str:
    """The name of the one icon on a button, which is to be seen."""
    svg = of.locator("svg")
    expect(svg).to_be_visible()
    lines = svg.locator("path").evaluate_all("all => all.map(line => line.getAttribute('d'))")
    assert style(svg, "stroke") == style(of, "color"), "in the colour of the words"
    return next((name for name, known in ICONS.items() if known == lines), str(lines))


@contextmanager
def spinning(page: Page, button: Locator) -> Iterator[None]:
    """Press a button whose answer is held back: its spinner turns until the block is left, and
    nothing else can be pressed.
    """
    kept: list[Route] = []
    address = re.compile(r"/decide$")
    page.route(address, lambda route: kept.append(route))
    pressed = button.element_handle()
    with page.expect_request(address):
        button.click()
    assert pressed is not None
    spinner = pressed.evaluate(SPINNER)
    assert spinner == {"drawn": True, "turns": True, "seen": True, "icons": 0}, (
        f"the spinner: {spinner}"
    )
    off = (
        "it => [...it.closest('[data-pause]').querySelectorAll('button')].every((one) => "
        "one.disabled)"
    )
    assert pressed.evaluate(off), "nothing else can be pressed"
    yield
    assert len(kept) == 1, "sent once"
    kept[0].continue_()
    page.unroute(address)
