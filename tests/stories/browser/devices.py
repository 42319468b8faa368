"""Screens of people, and the card on them."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Locator, Page

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def row(page: Page, asked: dict[str, Any]) -> Locator:
    """A question in the list."""
    return page.locator(f"[data-row={asked['id']}]")


def beside(page: Page, asked: dict[str, Any]) -> Locator:
    """A question beside the list."""
    return page.locator(f"[data-pane] [data-pause={asked['id']}]")


def card(page: Page, title: str):
    return page.locator(".pause", has_text=f"⏸️ {title}")
