"""Time travel in a browser: an operator in the admin, and a reviewer on the order's own pages, on
desktop and phone.
"""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from tests.programs.browser import DESK
from tests.stories.conftest import shot
from tests.worlds.repositories import git

pytestmark = pytest.mark.stack
PHONE: ViewportSize = {"width": 390, "height": 844}


def tidied(stack, ana: str, rules: str) -> str:
    """An order that has run from end to end."""
    asked = {
        "template": "repo-tidy-quick",
        "repository_url": str(stack.folder / "celery"),
        "input": {"rules": rules, "paths": "src/celery/worker src/sample"},
        "team": "platform",
    }
    status, order = stack.call("POST", "/api/v1/work-orders", asked, token=ana)
    assert status == 201, order
    stack.ended(order["id"], ana)
    return str(order["id"])


def subjects(stack, order: str) -> list[str]:
    """What the commits in the order's workspace say."""
    folder = stack.folder / "data" / "workspaces" / order
    said = git(folder, "log", "--format=%s", "refs/waystation/base..HEAD")
    return [line.split(":")[0] for line in said.splitlines()]


def open_history(page: Page, thread: str) -> None:
    page.goto(f"/admin/checkpoints/thread/?q={thread}")
    page.get_by_role("link", name=thread).first.click()
    expect(page.get_by_role("heading", name="Checkpoint History")).to_be_visible()


def fork(stack, page: Page, order: str, ana: str) -> None:
    """The plan took in too much; the fork has a narrower one, and the code goes back with it."""
    thread = stack.order(order, ana)["thread_id"]
    open_history(page, thread)
    table = page.locator("#history table")
    assert table.locator("thead th").all_inner_texts() == [
        "ID",
        "Status",
        "Step",
        "Round",
        "Time",
        "Actions",
    ]
    expect(page.locator(".branches")).to_contain_text("Branch 1")
    shot(page, "forensics-thread")
    planned = table.locator("tr", has=page.locator("td", has_text=re.compile("^planning$"))).last
    planned.get_by_role("link", name="Details").click()
    changed = page.locator(
        "section", has=page.get_by_role("heading", name="Changed against its parent")
    )
    expect(changed).to_contain_text("/plan")
    expect(page.locator(".events")).to_contain_text("step_completed")
    page.get_by_label("Find a key or a value").fill("UP007")
    page.get_by_role("button", name="Find").click()
    expect(page.locator(".state-tree mark").first).to_have_text("UP007")
    shot(page, "forensics-checkpoint")
    page.get_by_role("link", name="Fork with edited state").click()
    editor = page.get_by_label("State", exact=True)
    state = json.loads(editor.input_value())
    editor.fill("{ broken")
    page.get_by_label("Reason").fill("UP007 was never wanted")
    page.get_by_role("button", name="Fork").click()
    expect(page.get_by_role("alert")).to_contain_text("Not JSON")
    expect(page.get_by_label("State", exact=True)).to_have_value("{ broken")
    expect(page.get_by_label("Reason")).to_have_value("UP007 was never wanted")
    shot(page, "forensics-fork-refused")
    state["scope"]["select"] = ["I001"]
    page.get_by_label("State", exact=True).fill(json.dumps(state, indent=2))
    page.get_by_role("button", name="Fork").click()
    expect(page.get_by_role("heading", name="Checkpoint History")).to_be_visible()
    stack.ended(order, ana)
    page.reload()
    expect(page.locator(".branches")).to_contain_text("Branch 2")
    current = page.locator("summary", has_text="Branch 2")
    expect(current).to_contain_text("current")
    expect(current).to_contain_text("Completed")
    shot(page, "forensics-branches")
    page.locator('input[name="old"]').last.check()
    page.get_by_role("button", name="Compare the two chosen").click()
    expect(page.locator(".changes")).to_contain_text("/scope")
    shot(page, "forensics-diff")
    assert subjects(stack, order) == ["Fix I001"]
    assert stack.order(order, ana)["git_commit_count"] == 1


def fits_a_phone(page: Page, name: str) -> None:
    """Nothing is wider than it, and both schemes are for eyes."""
    page.set_viewport_size(PHONE)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        shot(page, f"{name}-phone-{scheme}")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(DESK)
    shot(page, f"{name}-desktop")


def resume(stack, page: Page, order: str, ana: str) -> None:
    """What will be repeated and what is kept is said before it is done; a phone will do."""
    page.get_by_role("link", name="History and branches").click()
    expect(page.get_by_role("heading", name="Checkpoint History")).to_be_visible()
    fits_a_phone(page, "history")
    row = page.locator(
        "#history tr", has=page.locator("td", has_text=re.compile("^planning$"))
    ).last
    row.get_by_role("link", name="Details").click()
    expect(page.locator("main")).to_contain_text("Changed against the previous")
    fits_a_phone(page, "checkpoint")
    page.get_by_role("link", name="Resume from here").click()
    fits_a_phone(page, "resume")
    words = page.locator(".prospect")
    expect(words).to_contain_text("Execute, Review, Deliver")
    expect(words).to_contain_text("goes back to commit")
    page.get_by_role("button", name="Resume from here").click()
    expect(page.locator("main")).to_contain_text("This field is required")
    page.get_by_label("Reason").fill("once more")
    page.get_by_role("button", name="Resume from here").click()
    expect(page.locator("main")).to_contain_text("continues from the checkpoint")
    stack.ended(order, ana)
    page.goto(page.url)
    page.get_by_role("link", name="History and branches").click()
    expect(page.locator(".branches")).to_contain_text("Branch 3")


def test_an_operator_forks_where_a_run_went_wrong_and_a_reviewer_resumes_from_a_checkpoint(
    stack, open_page, token
):
    """Issue 4, 9 and 10; S0-54, S0-55, S0-80: one in the admin, with an edit; then the other on the
    order's own pages, without JavaScript. Each sees a new branch complete.
    """
    ana = token("ana")
    order = tidied(stack, ana, "I001, UP007")
    assert sorted(subjects(stack, order)) == ["Fix I001", "Fix UP007"]
    fork(stack, open_page("olga", "/admin/"), order, ana)
    reviewers = open_page("ben", f"/work-orders/{order}/", java_script_enabled=False)
    resume(stack, reviewers, order, ana)
