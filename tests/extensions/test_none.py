"""The core without any channel: what nobody switched on is not there, and breaks nothing."""

from __future__ import annotations

import os

import pytest
from django.core import mail
from django.test import Client

from hitl.models import ChatAccount
from hitl.models.channels import services
from hitl.models.outbound import Delivery, Endpoint
from hitl.operations.doctor import setup
from tests.programs.begun import Begun
from tests.worlds.mailing import relay

ADDRESSES = """
import django
django.setup()
from django.core.management import call_command
from django.test import Client
call_command("check")
call_command("makemigrations", "--check", "--dry-run")
for name in ("mail", "slack", "teams", "telegram"):
    answer = Client(SERVER_NAME="localhost").post(f"/api/v1/channels/{name}", b"{}", "text/plain")
    print(name, answer.status_code, answer.json()["code"])
"""


@pytest.fixture
def none(monkeypatch):
    for name in list(services):
        monkeypatch.delitem(services, name)


def test_with_none_switched_on_their_addresses_are_404(tmp_path):
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "project.settings",
        "WAYSTATION_DATA": str(tmp_path),
        "WAYSTATION_EXTENSIONS": "",
    }
    environment.pop("DATABASE_URL", None)
    done = Begun("-c", ADDRESSES, environment=environment).ended(within=120)
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stdout.splitlines() if "404" in line]
    names = ("mail", "slack", "teams", "telegram")
    assert told == [f"{name} 404 not_found" for name in names], done.stdout


@pytest.mark.django_db
def test_with_none_switched_on_pages_and_messages_say_nothing_of_them(
    none, paused, reachable, ben, settings
):
    """What is kept of one stays, and its messages wait until it is on again."""
    settings.WAYSTATION_REPLY_ADDRESS, settings.WAYSTATION_SLACK_TOKEN = "@x.example", "xoxb-x"
    ChatAccount.objects.create(service="slack", team="T0", account="U0", user=ben)
    Endpoint.objects.create(channel="slack", target="C0123ABCD", name="ops")
    browser = Client()
    browser.force_login(ben)
    page = browser.get("/notifications/").content.decode()
    assert "Chat accounts" not in page and ", with buttons" not in page
    assert browser.get("/notifications/chats").status_code == 404
    assert list(setup.channels()) == []
    relay()
    row = Delivery.objects.get(channel="slack")
    assert row.status == "queued" and "WAYSTATION_EXTENSIONS" in row.error
    assert mail.outbox and not any(message.reply_to for message in mail.outbox)
    assert str(ChatAccount.objects.get()) == "slack U0"
    row.endpoint = None
    assert row.to == "somebody in Slack"
