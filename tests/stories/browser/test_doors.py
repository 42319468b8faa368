"""The real servers' doors: links that no log keeps, the admin under its policy, settings that pass
Django's own check.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.databases.copies import PASSWORD, PEOPLE
from tests.programs.begun import Begun, plain
from tests.servers.stack import SlowStack, standing_alone

pytestmark = pytest.mark.stack
LISTS = (
    "runs/pause",
    "runs/run",
    "runs/workorder",
    "runs/template",
    "hitl/decision",
    "hitl/vote",
    "checkpoints/thread",
    "checkpoints/event",
    "auth/user",
)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowStack]:
    with standing_alone(tmp_path_factory.mktemp("doors"), PEOPLE) as stack:
        yield stack


@pytest.fixture(scope="module")
def admin(chromium: Browser, alone: SlowStack) -> Iterator[tuple[Page, list[str]]]:
    """An operator's page, and what its console complains of."""
    context = chromium.new_context(base_url=alone.url)
    page = context.new_page()
    said: list[str] = []
    page.on(
        "console", lambda message: said.append(message.text) if message.type == "error" else None
    )
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto("/admin/")
    page.locator("[name=username]").fill("olga")
    page.locator("[name=password]").fill(PASSWORD)
    page.locator("[name=password]").press("Enter")
    page.wait_for_url("**/admin/")
    yield page, said
    context.close()


def test_the_admin_works_under_a_policy_of_its_own(admin):
    """It had none: a script in what somebody wrote would have run there, as an operator."""
    page, said = admin
    policy = page.request.get("/admin/").headers["content-security-policy"]
    assert "script-src 'self' 'unsafe-eval'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe-eval" not in page.request.get("/").headers["content-security-policy"]
    for path in LISTS:
        page.goto(f"/admin/{path}/")
        rows = page.locator("#result_list tbody th a")
        if rows.count():
            rows.first.click()
            page.wait_for_load_state()
    page.goto("/admin/runs/template/")
    page.locator("body").press("Control+k")
    assert said == []


def test_what_is_shown_only_once_is_copied_by_its_button(admin):
    page, said = admin
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto("/tokens/connect")
    page.get_by_label("Name").fill("release-bot")
    page.get_by_role("button", name="Make a token").click()
    button = page.get_by_role("button", name="Copy: Codex")
    button.focus()
    button.press("Enter")
    expect(button).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.locator("[data-copy=Codex]").text_content()
    assert "wst_" in copied
    page.goto("/tokens/")
    page.get_by_label("Name").fill("nightly")
    page.get_by_role("button", name="Create token").click()
    page.get_by_role("button", name="Copy: API token").click()
    page.wait_for_function("document.querySelector('[data-announce]').textContent == 'Copied.'")
    assert page.evaluate("navigator.clipboard.readText()").startswith("wst_")
    assert said == []


def use(stack: SlowStack, token: str) -> None:
    """Open it, answer it, cut it off, and ask for what is not there."""
    for method, path in (
        ("GET", f"/l/{token}"),
        ("POST", f"/l/{token}"),
        ("GET", f"/l/{token[:-3]}"),
        ("GET", f"/l/{token}/x"),
        ("PUT", f"/l/{token}"),
        ("GET", f"/x/l/{token}"),
    ):
        assert stack.call(method, path)[0] >= 400


def test_no_log_holds_the_token_of_a_link(alone):
    """Access logs and refusals held it: whoever read a log could answer as somebody else."""
    token = secrets.token_urlsafe(32)
    use(alone, token)
    headers = alone.exchange("GET", f"/l/{token}")[1]
    assert headers["Referrer-Policy"] in {"no-referrer", "same-origin"}
    alone.stop()
    alone.web("daphne")
    use(alone, token)
    alone.stop()
    arguments = (
        "-m",
        "uvicorn",
        "project.asgi:application",
        "--port",
        str(alone.port),
        "--log-level",
        "debug",
    )
    alone.start("uvicorn", *arguments)
    alone.wait_for_web()
    use(alone, token)
    alone.stop()
    said = "".join(path.read_text(errors="replace") for path in alone.folder.glob("*.log"))
    assert said.count("/l/[redacted]") > 8  # they do write such lines
    assert token not in said
    assert token[:-3] not in said
    assert not [path for path in (alone.folder / "data").rglob("*") if token[:20] in path.name]


def test_the_productions_settings_pass_djangos_own_check(tmp_path):
    """Three warnings of five stood there, with the settings that README names."""
    settings = {
        "WAYSTATION_DATA": str(tmp_path),
        "HTTPS": "1",
        "ALLOWED_HOSTS": "waystation.example",
        "SECRET_KEY": "0aZ" * 20 + "xyzäöü()",
    }
    words = ("manage.py", "check", "--deploy", "--fail-level", "WARNING")
    done = Begun(*words, environment=plain() | settings).ended()
    assert (done.returncode, "no issues" in done.stdout + done.stderr) == (0, True), done.stderr
