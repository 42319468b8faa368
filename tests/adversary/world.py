"""Who plays, and what there is to play with."""

from __future__ import annotations

import base64
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from checkpoints import ids
from checkpoints.models import Checkpoint, Thread
from extensions.mail_replies import addresses
from hitl.models import (
    ApiToken,
    ChatAccount,
    Comment,
    Decision,
    Delegation,
    InboundSource,
)
from hitl.models.channels import service_choices
from hitl.models.outbound import Delivery
from hitl.outbound import links
from runs.models import Pause, QueuedTurn, Run, Schedule, WorkOrder
from tests.adversary.played import book
from tests.adversary.played.book import REVIEWERS, TEAM
from tests.adversary.played.templates import STEPS

MAIL_DOMAIN, CHATS = "example.org", "T0GAME"
SOURCE, SECRET = "partner", "whsec_" + "YWR2ZXJzYXJ5LWFkdmVyc2FyeS1hZHZlcnNhcnk="
TEAMS_SECRET = base64.b64encode(SECRET.encode()).decode()
PEOPLE = ("ana", "ben", "cy", "dee", "zoe", "tess", "oli")
"""Ana asks for work; Ben and Cy review; Dee is in the team and no reviewer; Zoe is a stranger; Tess
writes templates; Oli operates.
"""
SHOWN: dict[str, Any] = {
    "order_id": WorkOrder,
    "thread_id": Thread,
    "run_id": Run,
    "pause_id": Pause,
    "checkpoint_id": Checkpoint,
    "decision_id": Decision,
    "turn_id": QueuedTurn,
    "comment_id": Comment,
    "schedule_id": Schedule,
    "delivery_id": Delivery,
}
"""Arguments of URLs that are shown ids, and of what."""
OTHERS = ("delegation_id", "slug", "source", "token")


@dataclass
class World:
    people: dict[str, User]
    pages: dict[str, Client]
    rest: dict[str, Client]
    documents: list[bytes] = field(default_factory=list)
    """What was exported, to be imported again."""
    tokens: list[str] = field(default_factory=list)
    """Of links that were sent."""
    story: list[str] = field(default_factory=list)
    """What was done, in words."""
    moved: Counter[str] = field(default_factory=Counter)
    """Door → how often it let somebody do something."""
    copied: set[str] = field(default_factory=set)
    """Marks of orders whose documents were imported: whoever holds a document knows what it
    says.
    """
    cookies: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Name → what that person's browser held when the world was made."""

    def anew(self) -> World:
        """The same people before anything happened, where their rows are as they were made."""
        book.clear()
        for name, client in self.pages.items():
            client.cookies.clear()
            client.cookies.update(self.cookies[name])
        people = {name: User.objects.get(username=name) for name in PEOPLE}
        return World(people, self.pages, self.rest)

    def known(self, *names: str) -> dict[str, list[str]]:
        """The arguments of URLs that there are, by name, the newest first: of these names, or of
        all.
        """
        found = {name: self._known(name) for name in names or (*SHOWN, *OTHERS)}
        return {name: values for name, values in found.items() if values}

    def _known(self, name: str) -> list[str]:
        if name in SHOWN:
            return _shown(SHOWN[name])
        if name == "delegation_id":
            delegations = Delegation.objects.order_by("-pk")
            return [str(pk) for pk in delegations.values_list("pk", flat=True)[:8]]
        others = {"slug": list(STEPS), "source": [SOURCE], "token": self.tokens[-12:]}
        return others.get(name, [])

    def reply_addresses(self) -> list[str]:
        """Where the newest mails are answered."""
        asking = Delivery.objects.filter(
            channel="email", recipient__isnull=False, pause__isnull=False
        )
        related = asking.select_related("pause", "recipient").order_by("-pk")
        return [address for one in related[:12] if (address := addresses.address_of(one))]

    def collect_links(self) -> None:
        """What a round of mail would carry: each message's link."""
        for delivery in Delivery.objects.filter(pause__isnull=False).select_related(
            "pause", "recipient"
        ):
            token = links.url_of(delivery).rsplit("/", 1)[-1]
            if token not in self.tokens:
                self.tokens.append(token)


def _shown(model: Any) -> list[str]:
    return [
        ids.show(model.PREFIX, pk)
        for pk in model.objects.order_by("-pk").values_list("pk", flat=True)[:12]
    ]


def build() -> World:
    """People with their rights, sessions and tokens.

    The templates, whose rules name them, are loaded after.
    """
    book.clear()
    team, reviewers = Group.objects.create(name=TEAM), Group.objects.create(name=REVIEWERS)
    people = {
        name: User.objects.create_user(name, email=f"{name}@example.org", password=None)
        for name in PEOPLE
    }
    for name in ("ana", "ben", "dee"):
        people[name].groups.add(team)
    for name in ("ben", "cy"):
        people[name].groups.add(reviewers)
    own = Permission.objects.filter(
        content_type__app_label="runs", codename__in=["add_template", "add_steptemplate"]
    )
    people["tess"].user_permissions.set(own)
    people["oli"].user_permissions.set(Permission.objects.all())
    people["oli"].groups.add(team)
    User.objects.filter(username="oli").update(is_staff=True)
    # held by everybody, so that what follows behind the right is tried too
    for right in ("import_thread", "add_schedule"):
        for permission in Permission.objects.filter(codename=right):
            for person in people.values():
                person.user_permissions.add(permission)
    people = {name: User.objects.get(username=name) for name in PEOPLE}
    InboundSource.objects.create(name=SOURCE, user=people["ben"], secrets=[SECRET])
    for name, user in people.items():
        for service, _ in service_choices():
            ChatAccount.objects.create(service=service, team=CHATS, account=name, user=user)
        # in Telegram accounts have numbers, of no workspace
        number = str(PEOPLE.index(name) + 1)
        ChatAccount.objects.create(service="telegram", team="telegram", account=number, user=user)
    pages, rest = {}, {}
    for name, user in people.items():
        pages[name] = Client(raise_request_exception=False)
        pages[name].force_login(user)
        secret = ApiToken.make(user, name="adversary")[1]
        rest[name] = Client(raise_request_exception=False, HTTP_AUTHORIZATION=f"Bearer {secret}")
    # changes who is in which group, and does nothing else
    pages["root"] = Client(raise_request_exception=False)
    pages["root"].force_login(
        User.objects.create_superuser("root", email="root@example.org", password=None)
    )
    pages["nobody"] = rest["nobody"] = Client(raise_request_exception=False)
    cookies = {name: dict(client.cookies) for name, client in pages.items()}
    return World(people, pages, rest, cookies=cookies)
