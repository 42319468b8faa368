"""An order whose first question has rules, and every door that an answer can come through."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.contrib.messages import get_messages
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from hitl.models import ApiToken, Decision, Vote
from runs import definitions
from runs.models import Pause, WorkOrder
from tests.conftest import drive
from tests.worlds.people import hire

Door = Callable[[User, Pause, str, str], str]


@pytest.fixture
def ruled(make_order: Callable[..., WorkOrder]) -> Callable[..., WorkOrder]:
    """`ruled({"quorum": 2})`: Ana's order, seen by her team, that waits with a question under these
    rules.
    """

    def make(
        review: dict[str, Any], *, order: dict[str, Any] | None = None, **step: Any
    ) -> WorkOrder:
        first = {
            "step_type": "planning",
            "step_template_slug": "test-plan",
            "pause_after": True,
            "pause_phase": "awaiting_plan_approval",
        }
        skip = {"choices": [{"name": "skip", "label": "Go ahead at once", "to": "finish"}]}
        steps = [
            {**first, **skip, "review": review, **step},
            {"step_type": "execute", "step_template_slug": "test-work"},
            {"step_type": "deliver", "name": "finish", "step_template_slug": "test-finish"},
        ]
        hire(review)
        definitions.edit_template("ruled", steps=steps, title="Ruled", needs_repository=False)
        return drive(make_order("ruled", **(order or {})))

    return make


def browser(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def rest(user: User) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {ApiToken.make(user, name='test')[1]}")
    return client


def _outcome(response: Any) -> str:
    """`decided`, `voted`, or the code of the refusal."""
    return {200: "decided", 201: "decided", 202: "voted"}.get(response.status_code) or str(
        response.json()["code"]
    )


def by_page(user: User, pause: Pause, action: str, words: str) -> str:
    before = Decision.objects.count(), Vote.objects.count()
    response = browser(user).post(
        f"/pauses/{pause.shown_id}/decide",
        {"action": action, "feedback": words, "revision": pause.revision},
    )
    if response.status_code == 302:
        return "decided" if Decision.objects.count() > before[0] else "voted"
    assert (Decision.objects.count(), Vote.objects.count()) == before
    return f"{response.status_code}"


def by_decisions(user: User, pause: Pause, action: str, words: str) -> str:
    body = {"decision": action, "feedback": words}
    return _outcome(
        rest(user).post(f"/api/v1/pauses/{pause.shown_id}/decisions", body, format="json")
    )


def by_order(user: User, pause: Pause, action: str, words: str) -> str:
    assert pause.run.work_order is not None
    body = {"decision": action, "feedback": words}
    return _outcome(
        rest(user).post(
            f"/api/v1/work-orders/{pause.run.work_order.shown_id}/resume", body, format="json"
        )
    )


def by_message(user: User, pause: Pause, action: str, words: str) -> str:
    text = {"approve": "APPROVE", "cancel": "REJECT"}.get(action, words)
    response = rest(user).post(
        f"/api/v1/threads/{pause.run.thread.shown_id}/runs", {"input": text}, format="json"
    )
    return (
        "voted"
        if response.status_code == 201 and response.json()["how"] == "voted"
        else _outcome(response)
    )


def by_input(user: User, pause: Pause, action: str, words: str) -> str:
    text = {"approve": "APPROVE", "cancel": "REJECT"}.get(action, words)
    response = rest(user).post(
        f"/api/v1/runs/{pause.run.shown_id}/input", {"content": text}, format="json"
    )
    return (
        "voted"
        if response.status_code == 201 and response.json()["how"] == "voted"
        else _outcome(response)
    )


def by_admin(user: User, pause: Pause, action: str, words: str) -> str:
    """Members of staff with every right on questions; the rules bind them as well."""
    user.is_staff = True
    user.save()
    user.user_permissions.add(
        *Permission.objects.filter(codename__in=["view_pause", "change_pause"])
    )
    name = {"cancel": "cancel_order"}.get(action, action)
    chosen = {"_selected_action": [pause.pk], f"revision_{pause.shown_id}": pause.revision}
    fields = {"action": name, "confirmed": "yes", "feedback": words, **chosen}
    response = browser(user).post(reverse("admin:runs_pause_changelist"), fields)
    [message] = get_messages(response.wsgi_request)
    return (
        "voted"
        if "your vote is recorded" in str(message)
        else "decided"
        if message.level_tag == "success"
        else str(message)
    )


def by_command(user: User, pause: Pause, action: str, words: str) -> str:
    order = pause.run.work_order
    assert order is not None
    said = [words] if action == "revise" else [f"--reason={words}"]
    out = StringIO()
    try:
        call_command(
            "workorder", "--user", user.username, action, order.shown_id, *said, stdout=out
        )
    except CommandError as error:
        return str(error)
    return "voted" if "vote is recorded" in out.getvalue() else "decided"


DOORS: dict[str, Door] = {
    "page": by_page,
    "decisions": by_decisions,
    "order": by_order,
    "message": by_message,
    "input": by_input,
    "admin": by_admin,
    "command": by_command,
}
"""What each gives: `decided`, `voted`, or how it refused: a status, a code or words."""


@pytest.fixture(params=sorted(DOORS))
def door(request: pytest.FixtureRequest) -> Door:
    return DOORS[str(request.param)]
