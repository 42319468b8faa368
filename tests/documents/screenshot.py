"""`make screenshot`: take docs/images/pause-card.png from the running product.

Starts the demo that `make up` starts, in a folder of its own, and photographs the card that asks
for the approval of the sample repository's plan.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.programs.browser import chromium
from tests.servers.stack import Stack

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "images" / "pause-card.png"
WINDOW = {"width": 1100, "height": 1600}
"""So wide that the page is a desktop's, so high that all of the card is in it."""
MARGIN = 16
MOST_BYTES = 150_000


def start_demo(stack: Stack) -> tuple[str, str]:
    """Start the demo; return the password of `reviewer` and the path of the first work order."""
    stack.environment.pop("WAYSTATION_LEASE_SECONDS", None)  # as a newcomer has it
    stack.standalone("--demo")
    printed = (stack.folder / "standalone.log").read_text()
    password = re.search(r"password\s+(\S+)", printed)
    path = re.search(r"/work-orders/\S+", printed)
    assert password and path, printed
    return password[1], path[0]


@contextmanager
def browser(url: str, password: str, path: str) -> Iterator[Page]:
    """The page at `path` in a Chromium in which the demo's reviewer has logged in."""
    with chromium() as opened:
        page = opened.new_page(
            viewport=WINDOW,  # type: ignore[arg-type]  # a plain dict fits the TypedDict
            color_scheme="light",
        )
        page.goto(f"{url}/login?next={path}")
        page.get_by_label("Username").fill("reviewer")
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(f"**{path}")
        yield page


def photograph(page: Page, picture: Path) -> None:
    """Write a picture of the pause card that the page shows, once all of it is there."""
    card = page.locator("article.card.pause")
    expect(card).to_be_visible(timeout=60_000)
    expect(card.get_by_text("Snooze").first).to_be_visible(timeout=60_000)
    expect(card.locator("[data-approve] kbd")).to_be_visible(timeout=60_000)
    box = card.bounding_box()
    assert box is not None
    picture.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(
        path=picture,
        animations="disabled",
        clip={
            "x": box["x"] - MARGIN,
            "y": box["y"] - MARGIN,
            "width": box["width"] + 2 * MARGIN,
            "height": box["height"] + 2 * MARGIN,
        },
    )
    size = picture.stat().st_size
    assert size < MOST_BYTES, f"{picture} has {size} bytes: too many for a README"


def main() -> int:
    fonts = subprocess.run(
        ["fc-list", ":lang=und-zsye"], capture_output=True, text=True, check=True
    )
    if not fonts.stdout:
        print("The card's ⏸️ needs a font: apt-get install fonts-noto-color-emoji", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="waystation-", ignore_cleanup_errors=True) as folder:
        stack = Stack(Path(folder), {})
        try:
            password, path = start_demo(stack)
            with browser(stack.url, password, path) as page:
                photograph(page, PICTURE)
        finally:
            stack.stop()
    print(f"{PICTURE} has {PICTURE.stat().st_size} bytes. Look at it before you commit it.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
