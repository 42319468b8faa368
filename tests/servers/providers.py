"""Identity providers in processes of their own, and what a browser does there.

`oidc-provider` and `samlp` of npm: nobody here wrote them.
"""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from django.test import Client

from project.identity import options
from tests.node import INSTALLED, search_path
from tests.servers.private import free_port
from tests.servers.stack import ROOT

HERE = "http://ways.example"
SECRET = "a secret of the tests"


class Provider:
    """One that runs; `address` is also its issuer or entity id."""

    login: str
    """Our page that sends on to it."""

    def __init__(self, address: str) -> None:
        self.address = address

    def tell(self, subject: str, **said: Any) -> None:
        """From now on it says this of somebody."""
        httpx.put(f"{self.address}/people/{subject}", json=said).raise_for_status()

    def begin(self, client: Client, **query: str) -> str:
        """Where we send a browser."""
        return str(client.get(self.login, query)["Location"])

    def log_in(self, subject: str, client: Client | None = None, **query: str) -> tuple[Any, Any]:
        """Log in from the beginning; give the browser and our answer."""
        client = client or Client(enforce_csrf_checks=True)
        return client, self.arrive(client, self.at_provider(self.begin(client, **query), subject))

    def at_provider(self, address: str, subject: str) -> Any:
        """Log in there as a browser does; give what it brings back."""
        raise NotImplementedError  # each protocol's own

    def arrive(self, client: Client, brought: Any) -> Any:
        """Bring it, and follow to our answer."""
        raise NotImplementedError  # each protocol's own


class OidcProvider(Provider):
    login, back = "/login/elsewhere", "/login/elsewhere/back"

    def set_up(self, settings: Any) -> dict[str, Any]:
        settings.WAYSTATION_OIDC_ISSUER = self.address
        settings.WAYSTATION_OIDC_NAME = "Keyring"
        return {
            "issuer": self.address,
            "secret": SECRET,
            "client_id": "waystation",
            "name": "Keyring",
            "scopes": ["openid", "profile", "email"],
        }

    def at_provider(self, address: str, subject: str) -> str:
        with httpx.Client(follow_redirects=False) as browser:
            fields: dict[str, str] = {}
            for _ in range(12):
                response = browser.post(address, data=fields) if fields else browser.get(address)
                fields = {}
                if response.is_redirect:
                    address = str(response.next_request.url)
                    if address.startswith(HERE):
                        return address.removeprefix(HERE)
                    continue
                prompt = re.search(r'name="prompt" value="(\w+)"', response.text)
                form = re.search(r'action="([^"]+)"', response.text)
                assert prompt and form, response.text
                address = form[1]
                fields = {"prompt": prompt[1], "login": subject, "password": "x"}
        raise AssertionError("the provider goes round in circles")

    def arrive(self, client: Client, brought: str) -> Any:
        return client.get(brought)

    def logged_out(self, subject: str) -> str:
        """Somebody logs out there; give the body of the request that it makes of ours."""
        return httpx.delete(f"{self.address}/people/{subject}").raise_for_status().text


class SamlProvider(Provider):
    login, back = "/login/saml", "/login/saml/back"

    def set_up(self, settings: Any) -> dict[str, Any]:
        settings.WAYSTATION_SAML_ISSUER = self.address
        settings.WAYSTATION_SAML_METADATA = f"{self.address}/metadata"
        settings.WAYSTATION_SAML_NAME = "Castle"
        self.does()
        return {
            "saml_issuer": self.address,
            "saml_metadata": f"{self.address}/metadata",
            "saml_name": "Castle",
        }

    def tell(self, subject: str, **said: Any) -> None:
        # samlp writes no valid statement of nothing
        super().tell(subject, displayName="Somebody", **said)

    def does(self, **options: Any) -> None:
        """What it does from now on that it had better not."""
        httpx.put(f"{self.address}/options", json=options).raise_for_status()

    def at_provider(self, address: str, subject: str) -> dict[str, str]:
        with httpx.Client() as browser:
            form = browser.get(address).text
            fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form))
            page = browser.get(address.partition("?")[0], params={**fields, "login": subject})
        assert page.status_code == 200, page.text
        action = re.search(r'action="([^"]+)"', page.text)
        assert action and html.unescape(action[1]) == f"{HERE}{self.back}"
        return {
            name: html.unescape(value)
            for name, value in re.findall(r'name="(\w+)"\s+value="([^"]*)"', page.text)
        }

    def arrive(self, client: Client, brought: dict[str, str]) -> Any:
        """As its page posts it, without our session, which browsers keep from it."""
        session = client.cookies.pop("sessionid", None)
        answer = client.post(self.back, brought)
        if session is not None:
            client.cookies["sessionid"] = session.value
        return client.get(answer["Location"]) if answer.status_code == 302 else answer


@contextmanager
def running(package: str, script: str, *words: str) -> Iterator[str]:
    """The address of a provider while it runs; skips the test where it is not installed."""
    node = shutil.which("node", path=search_path())
    if node is None or not (INSTALLED / "node_modules" / package).exists():
        pytest.skip(f"{package} could not be installed: see .venv/node/why-not.txt")
    port = free_port()
    command = [node, str(ROOT / "tests/servers" / script), str(INSTALLED), str(port), *words]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def use(settings: Any, *providers: OidcProvider | SamlProvider) -> None:
    """People log in by these."""
    settings.WAYSTATION_URL = HERE
    words: dict[str, Any] = {}
    for provider in providers:
        words |= provider.set_up(settings)
    for name, value in options.providers(**words).items():
        setattr(settings, name, value)
