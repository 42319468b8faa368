"""The Chromium in which pages are looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Playwright, sync_playwright

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
