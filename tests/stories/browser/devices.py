"""Screens of people, and the card on them."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Locator, Page

PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "has_touch": True,
    "is_mobile": True,
}

BLANK = "/livez"
"""A page without scripts, for who goes on from there at once."""


def row(page: Page, asked: dict[str, Any]) -> Locator:
    """A question in the list."""
    return page.locator(f"[data-row={asked['id']}]")


def beside(page: Page, asked: dict[str, Any]) -> Locator:
    """A question beside the list, as soon as keys are taken there: not while the server is asked
    whether what is drawn is so still.
    """
    return page.locator(f"[data-place]:not([inert]) [data-pause={asked['id']}]")


def drawn_beside(page: Page, asked: dict[str, Any]) -> Locator:
    """A question beside the list, also one that is only shown yet."""
    return page.locator(f"[data-place] [data-pause={asked['id']}]")


def card(page: Page, title: str):
    return page.locator(".pause", has_text=f"⏸️ {title}")
