"""The examples of docs/how-to/wait-gate-client.md, run as they stand there."""

from __future__ import annotations

import re
import time
from functools import partial
from pathlib import Path

import httpx
import pytest
from django.test import Client

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import ApiToken, Decision, InboundSource, Via
from hitl.outbound.signatures import new_secret
from runs.models import Pause

pytestmark = pytest.mark.django_db

BLOCKS = re.findall(
    r"```python\n(.*?)```",
    (Path(__file__).parents[3] / "docs" / "how-to" / "wait-gate-client.md").read_text(),
    re.DOTALL,
)


def to_django(request: httpx.Request) -> httpx.Response:
    """What is sent over HTTP goes through the whole of Django, in this thread and its
    transaction.
    """
    kind = request.headers.get("content-type", "application/json")
    headers = {
        name: value
        for name, value in request.headers.items()
        if name not in {"content-type", "content-length", "host"}
    }
    path = request.url.raw_path.decode()
    response = Client().generic(
        request.method, path, request.content, content_type=kind, headers=headers
    )
    return httpx.Response(
        response.status_code, headers=dict(response.headers), content=response.content
    )


def test_the_examples_do_what_they_say(ana, ben, team, monkeypatch, settings):
    """S3-20, S3-34..38, S3-54: the client, a signed event, and the five primitives."""
    client, ask, go_on, signing, send, primitives = BLOCKS
    # as the page says of mail to people without an account
    settings.WAYSTATION_OUTSIDE_DOMAINS = ["example.org"]
    secret = new_secret()
    InboundSource.objects.create(name="crm", user=ana, secrets=[secret])
    monkeypatch.setenv("WAYSTATION_URL", "http://localhost")
    monkeypatch.setenv("WAYSTATION_TOKEN", ApiToken.make(ana, name="engine")[1])
    monkeypatch.setenv("WAYSTATION_SOURCE_SECRET", secret)
    here = partial(httpx.Client, transport=httpx.MockTransport(to_django))
    monkeypatch.setattr(httpx, "Client", here)
    monkeypatch.setattr(httpx, "post", lambda *args, **kwargs: here().post(*args, **kwargs))
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        pause = Pause.objects.open().get()
        services.decide(
            pause.pk, Answer("answer", Via.PAGE, payload={"vat_id": "DE123456789"}), by=ana
        )

    names = {"user": ana}
    exec(client + ask, names)
    monkeypatch.setattr(time, "sleep", sleep)
    exec(go_on, names)
    assert slept == [60]
    assert names["state"] == {"invoice": 4711, "net": "119.00", "vat_id": "DE123456789"}
    exec(signing + send, names)
    assert (names["response"].status_code, names["response"].json()["duplicate"]) == (200, True)
    exec(primitives, names)
    assert Decision.objects.count() == 2
