"""The page that connects an agent: a token, and what goes into the hosts of agents (issue 21)."""

from __future__ import annotations

import html
import json
import re
import tomllib

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from hitl.models import ApiToken

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]

FORM = {"name": "release-bot", "scope": "ask", "team": "platform", "days": "30"}


@pytest.fixture
def page(ana, settings) -> Client:
    settings.WAYSTATION_MCP, settings.WAYSTATION_URL = True, "https://way.example/station"
    Group.objects.create(name="others")
    client = Client()
    client.force_login(ana)
    return client


def texts(page: str) -> list[str]:
    found = re.findall(r'<pre class="config"[^>]*>(.*?)</pre>', page, re.DOTALL)
    return [html.unescape(text) for text in found]


def test_a_token_is_shown_once_in_what_each_host_takes(page, ana):
    """Before, one put a host's configuration together from documents of three projects."""
    form = page.get("/tokens/connect").content.decode()
    assert "Connect an agent" in form and "platform" in form and "others" not in form
    made = page.post("/tokens/connect", FORM)
    assert made.status_code == 201 and "no-store" in made["Cache-Control"]
    claude, codex, cursor, opencode, prompt = texts(made.content.decode())
    assert "--permission-prompt-tool mcp__waystation__permission_prompt" in prompt
    # else a person is asked whether the agent may ask a person
    assert "--allowedTools mcp__waystation__request_approval,mcp__waystation__ask_human," in prompt
    servers = [
        json.loads(claude)["mcpServers"]["waystation"],
        json.loads(cursor)["mcpServers"]["waystation"],
        json.loads(opencode)["mcp"]["servers"]["waystation"],
    ]
    toml = tomllib.loads(codex)["mcp_servers"]["waystation"]
    assert {server["url"] for server in [*servers, toml]} == {
        "https://way.example/station/mcp?team=platform"
    }
    (header,) = {
        *(server["headers"]["Authorization"] for server in servers),
        toml["http_headers"]["Authorization"],
    }
    token = ApiToken.objects.get(digest=ApiToken.digest_of(header.removeprefix("Bearer ")))
    assert (token.user, token.name, token.scope) == (ana, "release-bot", "ask")
    assert token.expires_at is not None
    assert header.removeprefix("Bearer ") not in page.get("/tokens/").content.decode()


def test_an_assistant_has_no_team_and_no_prompt_tool(page):
    made = page.post("/tokens/connect", {**FORM, "scope": "answer"}).content.decode()
    assert ApiToken.objects.get().scope == "answer"
    assert len(texts(made)) == 4 and "team=" not in made


def test_what_is_wrong_makes_no_token(page, subtests):
    """A team of others is none of yours; nor does the page make a token that does both."""
    for wrong in [{"name": ""}, {"scope": "write"}, {"team": "others"}, {"days": ""}]:
        with subtests.test(str(wrong)):
            assert page.post("/tokens/connect", {**FORM, **wrong}).status_code == 422
            assert not ApiToken.objects.exists()


def test_a_server_without_the_door_has_no_such_page(page, settings):
    assert b"Connect an agent" in page.get("/tokens/").content
    settings.WAYSTATION_MCP = False
    assert page.get("/tokens/connect").status_code == 404
    assert b"Connect an agent" not in page.get("/tokens/").content
