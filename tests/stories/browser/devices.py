"""Screens of people, and the card on them."""

from __future__ import annotations

from playwright.sync_api import Page

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def card(page: Page, title: str):
    return page.locator(".pause", has_text=f"⏸️ {title}")
