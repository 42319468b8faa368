"""Operators' browsers in the admin, their rights, and a row of everything that it shows."""

from __future__ import annotations

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import Group, Permission, User
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from checkpoints.export import thread_document
from checkpoints.models import Thread
from checkpoints.state import codec
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.identity import service_accounts
from hitl.ledger import anchors
from hitl.models import (
    ApiToken,
    ChatAccount,
    ClaimedGroup,
    Delegation,
    InboundSource,
    MembershipChange,
    Via,
    Vote,
)
from hitl.outbound import endpoints
from hitl.outbound.signatures import new_secret
from hitl.threads import erasure
from hitl.threads import export as whole
from hitl.wait_gate import primitives
from runs.models import Credential, Pause, Repository, TemplateAccess, WorkLimit
from tests.conftest import drive, pause_of
from tests.matrix.world import schedule_of, start_of


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def staff(name: str, *rights: str) -> User:
    """A member of staff with rights such as `runs.view_pause`."""
    user = User.objects.create_user(name, is_staff=True)
    for right in rights:
        label, codename = right.split(".")
        user.user_permissions.add(
            Permission.objects.get(content_type__app_label=label, codename=codename)
        )
    return user


@pytest.fixture
def operator(db):
    """The browser of somebody with every right on what `runs` has."""
    user = staff("oli")
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="runs"))
    return client_of(user)


@pytest.fixture
def root(db):
    return User.objects.create_superuser("root")


@pytest.fixture
def desk(root):
    """A superuser's browser."""
    return client_of(root)


def list_of(page):
    return reverse(f"admin:{page}_changelist")


def page_of(page, key):
    return reverse(f"admin:{page}_change", args=[key])


def said(response):
    """Level and words of the messages, which are read by that."""
    response.client.cookies.pop("messages", None)
    return [(message.level_tag, str(message)) for message in get_messages(response.wsgi_request)]


def ask(client, page, action, *rows, **filters):
    """Choose an action for rows, as the list does."""
    return client.post(
        list_of(page),
        {
            "action": action,
            "index": "0",
            "select_across": "0",
            "_selected_action": [row.pk for row in rows],
        },
        **filters,
    )


def confirm(client, page, action, *rows, **fields):
    """Press "Yes" on the page that asks."""
    seen = {f"revision_{row.shown_id}": row.revision for row in rows if isinstance(row, Pause)}
    return client.post(
        list_of(page),
        {
            "action": action,
            "confirmed": "yes",
            "_selected_action": [row.pk for row in rows],
            **seen,
            **fields,
        },
    )


@pytest.fixture
def one_of_each(paused, root, ana):
    """A row of every registered model, and a page's key for each."""
    ApiToken.make(ana, name="a program")
    InboundSource.objects.create(name="crm", user=ana, secrets=[new_secret()])
    primitives.create_checkpoint("r", "n", {}, {}, "b", by=ana)
    primitives.ingest_resume_event("r", {"x": 1}, {}, node_id="later", by=ana)
    Repository.objects.create(name="one", url="/somewhere")
    TemplateAccess.objects.create(slug="writing")
    Credential.objects.create(name="forge", value="a token of the forge")
    pause = pause_of(paused)
    facts = {
        "content_digest": pause.content_digest,
        "voted_at": timezone.now(),
        "via": Via.PAGE,
        "digest": "0" * 64,
    }
    Vote.objects.create(pause=pause, action="approve", voter=ana, seat=ana, **facts)
    Delegation.objects.create(
        from_user=ana,
        to_user=root,
        starts_at=timezone.now(),
        ends_at=timezone.now(),
        created_by=root,
    )
    services.decide(pause.pk, Answer("approve", Via.PAGE), by=ana)
    drive(paused)
    anchors.drop_due(now=timezone.now())
    endpoints.send_test(
        ana, endpoints.make(root, channel="email", target="all@example.org", scope="everybody")[0]
    )
    erasure.erase(Thread.objects.create(owner=ana).pk, by="root", reason="x")
    document = thread_document.read(
        codec.encode(whole.export(paused.thread_id)).encode(), limit=10_000_000
    )
    whole.load(document, owner=ana)
    schedule_of(ana)
    start_of(ana)
    ChatAccount.objects.create(service="slack", team="T1", account="U1", user=ana)
    WorkLimit.objects.create(template="writing")
    ClaimedGroup.objects.create(claim="ops", group=Group.objects.create(name="operators"))
    MembershipChange.objects.create(user=ana, added=["ops"])
    Authenticator.objects.create(user=ana, type="totp", data={"secret": "sealed"})
    service_accounts.make("bot", purpose="asks", by=root)
