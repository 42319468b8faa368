"""A template is put together in a browser, by mouse and by keyboard alone, and ordered by."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.stories.conftest import shot

pytestmark = pytest.mark.stack
GATE = "gate.wait_for_input"
ASKED = '{"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}'


def make_kind(page: Page, slug: str, question: str) -> None:
    """Make a step template of the function that asks, by its form."""
    page.goto("/templates/steps")
    page.get_by_role("link", name=f"Make a step template of {GATE}").click()
    page.get_by_label("Name", exact=True).fill(slug)
    page.get_by_label("Title", exact=True).fill(slug.capitalize())
    page.get_by_role("textbox", name="Question").fill(question)
    page.get_by_role("textbox", name="Blocking reason").fill("colour")
    page.get_by_label("Data that is asked for").fill(ASKED)
    page.get_by_role("button", name="Make the step template").click()
    expect(page.get_by_text("Saved as version 1.")).to_be_visible()


def test_a_template_is_made_tried_and_ordered_by(open_page):
    page = open_page("olga", "/templates/")
    make_kind(page, "paint", "Which colour?")
    make_kind(page, "polish", "How shiny?")
    page.goto("/templates/")
    page.get_by_role("link", name="New template").click()
    page.get_by_label("Name", exact=True).fill("fence")
    page.get_by_label("Title", exact=True).fill("Paint the fence")
    for slug in ("polish", "paint"):
        page.get_by_label("Add a step to the end").select_option(slug)
        page.get_by_role("button", name="Add the step").click()
    # the rest by keyboard alone: the new step's name has the focus, and nothing red
    expect(page.locator("[name='1.name']")).to_be_focused()
    page.get_by_role("button", name="Move up step 2").press("Enter")
    expect(page.locator("fieldset.step legend").first).to_contain_text("Paint")
    expect(page.get_by_label("Title", exact=True)).to_have_value("Paint the fence")
    page.get_by_label("It works on a repository").uncheck()
    page.get_by_role("button", name="Try it").press("Enter")
    expect(page.get_by_text("Nothing was found that would stop an order.")).to_be_visible()
    shot(page, "template-new")
    page.get_by_label("Title", exact=True).press("Enter")
    page.wait_for_url(re.compile(r"/templates/fence/$"))
    shot(page, "template")
    page.goto("/work-orders/new?template=fence")
    page.get_by_role("button", name="Start the work order").click()
    page.wait_for_url(re.compile(r"/work-orders/wo_"))
    expect(page.get_by_text("Which colour?").first).to_be_visible()
