"""People without an account, in tests: the supplier, what was mailed, and a browser."""

from __future__ import annotations

import re
from typing import Any

from django.contrib.auth.models import User
from django.core import mail
from django.test import Client

SUPPLIER = "billing@supplier.example"


def link_to(address: str | None = SUPPLIER) -> str:
    """The way to the page, from the last mail."""
    found = re.search(r"/l/[\w-]+", str(mails_to(address)[-1].body))
    assert found is not None
    return found[0]


def mails_to(address: str | None = SUPPLIER) -> list[Any]:
    return [one for one in mail.outbox if one.to == [address]]


def browser(user: User | None = None, **options: Any) -> Client:
    client = Client(raise_request_exception=False, **options)
    if user is not None:
        client.force_login(user)
    return client
