"""Logging in by SAML in a real browser, whose rules for cookies no test client has: the provider's
page, on another site, posts to us.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.databases import copies
from tests.databases.copies import PASSWORD, PEOPLE
from tests.servers.certificates import pair
from tests.servers.providers import SamlProvider, running
from tests.servers.stack import SlowStack
from tests.stories.conftest import log_in

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, SamlProvider]]:
    """The server's address, on `localhost`, and a provider on `127.0.0.1`, another site."""
    stack = SlowStack(tmp_path_factory.mktemp("saml"), {})
    address = f"http://localhost:{stack.port}"
    words = [*map(str, pair(stack.folder, "provider")), f"{address}{SamlProvider.back}"]
    with running("samlp", "saml_provider.mjs", *words) as provider:
        stack.environment |= {
            "WAYSTATION_URL": address,
            "WAYSTATION_SAML_ISSUER": provider,
            "WAYSTATION_SAML_METADATA": f"{provider}/metadata",
            "WAYSTATION_SAML_NAME": "Castle",
        }
        copies.sqlite(stack.folder / "data")
        stack.load(PEOPLE)
        stack.standalone()
        try:
            yield address, SamlProvider(provider)
        finally:
            stack.stop()


def test_a_login_on_another_site_comes_back_to_the_page_that_was_asked_for(
    chromium: Browser, here: tuple[str, SamlProvider]
) -> None:
    """Issue 20, 4: from a link into the product, to the provider, and back; then out again."""
    address, provider = here
    provider.tell("m1", givenName="Mia", sn="Moe", email="mia@example.org", groups=["x"])
    page = chromium.new_context(base_url=address).new_page()
    errors: list[str] = []
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    page.goto("/tokens/")
    page.get_by_role("link", name="Log in by Castle").click()
    assert page.url.startswith(provider.address)
    page.locator("[name=login]").fill("m1")
    page.get_by_role("button").click()
    page.wait_for_url(f"{address}/tokens/")
    assert errors == []
    page.goto("/account/elsewhere")
    assert page.get_by_text("Castle", exact=True).is_visible()
    cookies = {cookie["name"]: cookie for cookie in page.context.cookies()}
    assert cookies["sessionid"]["sameSite"] == "Lax"
    page.get_by_label("Menu").click()
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url(f"{address}/login**")
    page.goto("/tokens/")
    assert "/login?next=" in page.url


def test_who_has_a_password_connects_the_provider_on_the_way_there_and_back(
    chromium: Browser, here: tuple[str, SamlProvider]
) -> None:
    """Issue 20, 4: no policy of the page stands in the way, and the proof is asked for once."""
    address, provider = here
    provider.tell("a1", groups=["x"])
    page = chromium.new_context(base_url=address).new_page()
    errors: list[str] = []
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    log_in(page, "ana", "/account/elsewhere")
    page.get_by_role("link", name="Connect Castle").click()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Go on").click()
    page.get_by_role("link", name="Connect Castle").click()
    page.locator("[name=login]").fill("a1")
    page.get_by_role("button").click()
    page.wait_for_url(f"{address}/account/elsewhere")
    assert page.get_by_text("From now on this login opens your account.").is_visible()
    page.get_by_role("button", name="Remove Castle").click()
    assert page.get_by_text("This login no longer opens your account.").is_visible()
    assert page.get_by_role("link", name="Connect Castle").is_visible()
    assert errors == []
