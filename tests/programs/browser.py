"""The Chromium in which pages are looked at."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Error,
    Page,
    Playwright,
    ViewportSize,
    sync_playwright,
)

from tests.servers.private import find

PROGRAMS = ("chromium-headless-shell", "chromium")
"""The first that is there. The shell is the same browser without the windows that nobody sees, and
does the same with half of the processor's time.
"""
NO_FEATURES = [
    # Chromium hears only the last such list, so Playwright's own come first
    "AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable", "LensOverlay", "MediaRouter", "PaintHolding",
    "ThirdPartyStoragePartitioning", "AvoidCorsURLLoaderRestartOnRedirect", "OptimizationHints",
    "NetworkTimeServiceQuerying", "AimEnabled", "PreconnectToSearch",
    # a frame of its own for each page that is gone to, and a process kept ready for another site
    "RenderDocument", "SpareRendererForSitePerProcess",
    # pages of the browser's own that it makes for the address bar of each window, which nobody
    # sees: half of what a window costs
    "WebUIOmniboxPopup", "WebUIOmniboxFullPopup", "WebUIOmniboxAimPopup", "PreloadTopChromeWebUI",
]  # fmt: skip
OPTIONS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    # what is drawn is drawn at once, by few: nobody looks at the frames of a scroll
    "--in-process-gpu", "--num-raster-threads=1", "--disable-smooth-scrolling",
    # a page lives for seconds, in which what is compiled to run fast does not earn its making
    "--js-flags=--no-opt,--no-maglev",
    f"--disable-features={','.join(NO_FEATURES)}",
]  # fmt: skip


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser for a while.

    While it is open its event loop runs, and Django refuses synchronous queries in that process.
    """
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@contextmanager
def marked(loop: asyncio.AbstractEventLoop | None) -> Iterator[None]:
    """Have this loop be the one that runs, or none, so that Django asks the database while a
    browser is open. Playwright marks its own as running, also where nobody calls it.
    """
    before = asyncio._get_running_loop()
    asyncio._set_running_loop(loop)
    try:
        yield
    finally:
        asyncio._set_running_loop(before)


def launch(playwright: Playwright) -> Browser:
    program = next(filter(None, map(find, PROGRAMS)))
    return playwright.chromium.launch(executable_path=program, args=OPTIONS)


EXPECTED = re.compile(r"\b(409|422) \(")
"""A lost race answers 409 and a form that is not filled in 422, which Chromium itself reports as
errors though the page handles them.
"""
DESK: ViewportSize = {"width": 1280, "height": 720}
FORGET = """() => {
  localStorage.clear();
  sessionStorage.clear();
  return !Object.keys(globalThis).some((name) => name.startsWith("__pw"));
}"""
"""Forget what pages have kept; tell whether no clock or socket is Playwright's own, as it stays for
all pages of a window.
"""


class Window:
    """A browser with one page, and what its console says."""

    def __init__(self, page: Page, kind: tuple[str, ...]) -> None:
        self.page, self.kind = page, kind
        self.errors: list[str] = []
        self.cut = False
        """Whether errors are no errors, since the server is cut off."""

    def listen(self) -> None:
        """To nothing that a test has listened to."""
        self.errors = []
        listened: Any = self.page._impl_obj
        listened.remove_all_listeners()
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _note(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not (self.cut or EXPECTED.search(message.text)):
            self.errors.append(message.text)

    def empty(self) -> bool:
        """Take back what a test has done; tell whether the window is as a new one. What is a test's
        own in the browser itself (scripts of all pages, a session of its protocol) stays: such a
        test closes its context.
        """
        page, context = self.page, self.page.context
        if page.is_closed():
            return False
        try:
            context.set_offline(False)
            page.unroute_all()
            for other in context.pages:
                if other != page:
                    other.close()
            # a page without scripts; one of another address would begin a process
            page.goto("/livez")
            page.mouse.move(0, 0)
            context.clear_cookies()
            context.clear_permissions()
            return bool(page.evaluate(FORGET))
        except Error:  # the server is no more
            return False


class Windows:
    """Windows that one test has after another: to make one costs half as much again as a page that
    is loaded in it.
    """

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.empty: list[Window] = []

    def open(
        self,
        url: str,
        *,
        viewport: ViewportSize = DESK,
        color_scheme: Any = "light",
        **options: Any,
    ) -> Window:
        kind = (url, *(f"{name}={options[name]}" for name in sorted(options)))
        window = next((one for one in self.empty if one.kind == kind), None)
        if window:
            self.empty.remove(window)
        else:
            context = self.browser.new_context(base_url=url, viewport=viewport, **options)
            window = Window(context.new_page(), kind)
        window.page.set_viewport_size(viewport)
        # what moves is drawn sixty times a second
        window.page.emulate_media(color_scheme=color_scheme, reduced_motion="reduce")
        window.listen()
        return window

    def close(self, window: Window, *, again: bool) -> None:
        """Once a test is over; `again`: the next one may have it."""
        if again and window.empty():
            self.empty.append(window)
        else:
            window.page.context.close()
