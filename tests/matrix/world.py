"""One small world for the whole matrix: people of every role, and one order or thread in every
state.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from allauth.mfa.models import Authenticator
from django.apps import apps
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.utils import timezone

from checkpoints import ids, store
from checkpoints.models import Thread
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.decisions.talk import comments
from hitl.identity import service_accounts
from hitl.ledger import anchors
from hitl.models import (
    ApiToken,
    Batch,
    ChatAccount,
    ClaimedGroup,
    Decision,
    Delegation,
    Import,
    InboundSource,
    InboundStart,
    MembershipChange,
    SavedView,
    ServiceAccount,
    StartDelivery,
    Via,
    Vote,
)
from hitl.models.outbound import Delivery, Endpoint
from hitl.threads import erasure
from hitl.wait_gate import primitives
from runs import definitions
from runs.engine.advance import advance
from runs.models import (
    Artifact,
    Credential,
    Occurrence,
    Pause,
    QueuedTurn,
    Repository,
    Schedule,
    TemplateAccess,
    WorkLimit,
    WorkOrder,
)
from runs.services import uploads
from runs.threads import message_queue
from runs.threads import turns as turns
from tests.conftest import drive, fresh, head_of, pause_of
from tests.databases import cleaning
from tests.worlds import lost_worker

NOTHING = "0" * 26
"""The end of an id that nothing has."""


@dataclass(frozen=True)
class Role:
    """Somebody at a door.

    `user` is whose session or token it is. `sees`: own threads, or those of the team; a superuser's
    are all. `known`: the door knows who it is. `token`: "" for a session, else what kind.
    """

    name: str
    user: str = ""
    token: str = ""
    known: bool = True
    sees: bool = False
    rights: str = ""
    """none, view, or all: of a person with staff status."""

    @property
    def staff(self) -> bool:
        return bool(self.rights) and not self.token

    def __str__(self) -> str:
        return self.name


ROLES = [
    Role("anonymous", known=False),
    Role("stranger", "zoe"),
    Role("member", "ben", sees=True),
    Role("owner", "ana", sees=True),
    Role("staff-without-rights", "sam", rights="none"),
    Role("staff-who-look", "vic", rights="view"),
    Role("staff-with-all-rights", "oli", rights="all"),
    Role("superuser", "root", sees=True, rights="all"),
    Role("inactive", "ida", known=False),
    Role("read-token", "ana", token="read", sees=True),
    Role("write-token", "ana", token="write", sees=True),
    Role("strangers-token", "zoe", token="write"),
    Role("expired-token", "ana", token="expired", known=False),
    Role("revoked-token", "ana", token="revoked", known=False),
    Role("inactive-persons-token", "ida", token="write", known=False),
]
"""Whoever may stand before a door.

`staff-with-all-rights` is in no team: rights in the admin open nobody's threads.
"""
BY_NAME = {role.name: role for role in ROLES}


@dataclass
class World:
    people: dict[str, User]
    states: dict[str, dict[str, str]]
    """State → name of a URL's argument → id; what a state does not have is not there."""
    shared: dict[str, str]
    """Arguments that belong to no state."""
    clients: dict[str, Client] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    urls: dict[str, str] = field(default_factory=dict)
    """Path of the admin → its address with a row in it."""

    def client(self, role: Role) -> Client:
        return self.clients[role.name]

    def headers(self, role: Role) -> list[tuple[bytes, bytes]]:
        """What a socket or a stream of this role sends."""
        if role.token:
            return [(b"authorization", f"Bearer {self.secrets[role.name]}".encode())]
        cookie = self.clients[role.name].cookies.get("sessionid")
        return [(b"cookie", f"sessionid={cookie.value}".encode())] if cookie else []


def build() -> World:
    """Make it.

    Call with the templates of the tests loaded; leaves nothing that a worker would have to do.
    """
    people = make_people()
    team = Group.objects.get(name="platform")
    states = {name: ids_of(make(people, team)) for name, make in STATES.items()}
    repository = Repository.objects.create(name="one", url="/tmp/one")
    came = {
        "thread": "thr_elsewhere",
        "exported_at": "2026-01-01T00:00:00Z",
        "digest": "",
        "runs": [],
        "pauses": [],
        "decisions": [],
    }
    elsewhere = turns.open_thread(by=people["ana"], team=team)
    Import.objects.create(
        thread=elsewhere, imported_by=people["root"], at=timezone.now(), source=came
    )
    TemplateAccess.objects.create(slug="writing-fail")
    ChatAccount.objects.create(service="slack", team="T0", account="U0ANA", user=people["ana"])
    ClaimedGroup.objects.create(claim="ops", group=team)
    MembershipChange.objects.create(user=people["ana"], added=["ops"])
    Authenticator.objects.create(user=people["ana"], type="totp", data={"secret": "sealed"})
    limit = WorkLimit.objects.create(template="nothing")
    Credential.objects.create(name="forge", value="a token of the forge")
    bot = User.objects.create(username="bot")
    account = ServiceAccount.objects.create(user=bot, purpose="asks", made_by=people["root"])
    service_accounts.issue(account, name="asks", scope="ask")
    pause = Pause.objects.get(pk=ids.parse("pse", states["paused"]["pause_id"]))
    shared = {
        "repository_id": repository.shown_id,
        "slug": "writing",
        "version": "1",
        "name": "test.plan",
        "listed": "inbox",
        "limit_id": str(limit.pk),
        "source": InboundSource.objects.create(name="partner", user=people["ana"]).name,
        "token": NOTHING,
        "endpoint_id": endpoint_of(people, team).shown_id,
        "delivery_id": delivery_of(pause, people["ben"]).shown_id,
        "token_id": str(ApiToken.make(people["ana"], name="spare")[0].pk),
        "artifact_id": artifact_of(pause).shown_id,
        "upload_id": uploads.upload(b"x", "x.txt", owner=people["ana"], field="x").shown_id,
        "pk": "1",  # nobody has a passkey
        "uidb36": "1",
        "key": "no-such-key",
        "delegation_id": str(delegation_of(people).pk),
        "comment_id": comments.add(pause.pk, "Really?", by=people["ana"]).shown_id,
        "schedule_id": schedule_of(people["ana"]).shown_id,
        "start_id": start_of(people["ana"]).shown_id,
        "view_id": SavedView.objects.create(
            owner=people["ana"], list="orders", name="Mine", query="person=me"
        ).shown_id,
    }
    shared["batch_id"] = Batch.objects.create(
        action="retry", by=people["root"], by_name="root", orders=[states["failed"]["order_id"]]
    ).shown_id
    facts = {
        "content_digest": pause.content_digest,
        "voted_at": timezone.now(),
        "via": Via.PAGE,
        "digest": "0" * 64,
    }
    done = Pause.objects.get(pk=ids.parse("pse", states["completed"]["pause_id"]))
    Vote.objects.create(
        pause=done, action="approve", voter=people["ben"], seat=people["ben"], **facts
    )
    anchors.drop_due(now=timezone.now())
    primitives.create_checkpoint("outer", "node", {}, {}, "blocked", by=people["ana"])
    # early
    primitives.ingest_resume_event("outer", {"x": 1}, {}, node_id="later", by=people["ana"])
    world = World(people, states, shared)
    for role in ROLES:
        world.clients[role.name] = make_client(world, role)
    User.objects.filter(username="ida").update(is_active=False)
    return world


def endpoint_of(people: dict[str, User], team: Group) -> Endpoint:
    """A webhook of the team, which Ana and Ben look after."""
    for name in ("ana", "ben"):
        people[name].user_permissions.add(Permission.objects.get(codename="change_endpoint"))
    return Endpoint.objects.create(
        channel="webhook", team=team, target="https://example.org/", secrets=[]
    )


def delivery_of(pause: Pause, to: User) -> Delivery:
    now = timezone.now()
    return Delivery.objects.create(
        pause=pause,
        occasion="asked",
        channel="email",
        place="x",
        recipient=to,
        next_at=now,
        made_at=now,
    )


def artifact_of(pause: Pause) -> Artifact:
    run = pause.run
    digest = store.put_blob(b"what an agent wrote")
    return Artifact.objects.create(
        thread_id=run.thread_id,
        run=run,
        step=pause.step,
        loop_num=1,
        name="output",
        digest=digest,
        size=19,
    )


def start_of(user: User) -> InboundStart:
    """What lets messages start work in somebody's name, and one that was refused."""
    source = InboundSource.objects.create(name="shop", user=user)
    start = InboundStart.objects.create(source=source, template="writing")
    StartDelivery.objects.create(start=start, delivery_id="1", code="input_invalid")
    return start


def schedule_of(owner: User) -> Schedule:
    """A schedule of the owner's, and a time that was skipped."""
    now = timezone.now()
    schedule = Schedule.objects.create(
        name="Hourly", owner=owner, template="writing", cron="0 * * * *", cursor=now
    )
    Occurrence.objects.create(
        schedule=schedule, at=now, local="now", status="skipped", settled_at=now
    )
    return schedule


def delegation_of(people: dict[str, User]) -> Delegation:
    now = timezone.now()
    return Delegation.objects.create(
        from_user=people["ana"],
        to_user=people["ben"],
        starts_at=now,
        ends_at=now + dt.timedelta(days=1),
        created_by=people["ana"],
    )


def make_people() -> dict[str, User]:
    team = Group.objects.create(name="platform")
    people = {
        name: User.objects.create_user(name, password=f"{name}'s long password")
        for name in ("ana", "ben", "zoe", "sam", "vic", "oli", "ida")
    }
    people["root"] = User.objects.create_superuser("root")
    for name in ("ana", "ben", "ida"):
        people[name].groups.add(team)
    User.objects.filter(username__in=["sam", "vic", "oli"]).update(is_staff=True)
    people["vic"].user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    people["oli"].user_permissions.set(Permission.objects.all())
    return {name: User.objects.get(pk=user.pk) for name, user in people.items()}


def make_client(world: World, role: Role) -> Client:
    client = Client(raise_request_exception=False)
    if role.token:
        now = timezone.now()
        token, secret = ApiToken.make(
            world.people[role.user],
            name=role.name,
            scope="read" if role.token == "read" else "write",
            expires_at=now - dt.timedelta(seconds=1) if role.token == "expired" else None,
        )
        ApiToken.objects.filter(pk=token.pk, name="revoked-token").update(revoked_at=now)
        world.secrets[role.name] = secret
        client.defaults["HTTP_AUTHORIZATION"] = f"Bearer {secret}"
    elif role.user:
        client.force_login(world.people[role.user])
    return client


def submit(people: dict[str, User], team: Group, template: str) -> WorkOrder:
    from runs import services as runs

    return fresh(runs.submit(template, by=people["ana"], team=team))


def running(people: dict[str, User], team: Group) -> WorkOrder:
    order = submit(people, team, "writing")
    lost_worker.claim(order.latest_run.pk, now=timezone.now())
    return fresh(order)


def answered(people: dict[str, User], team: Group) -> WorkOrder:
    """An order whose questions were all answered, and that is complete."""
    order = drive(submit(people, team, "writing"))
    while order.status == "paused":
        services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=people["ben"])
        order = drive(order)
    return order


def erased(people: dict[str, User], team: Group) -> dict[str, str]:
    order = answered(people, team)
    # of a decision a receipt stays
    gone = {name: shown for name, shown in ids_of(order).items() if name != "decision_id"}
    erasure.erase(order.thread_id, by="root", reason="asked for")
    return gone


def talking(people: dict[str, User], team: Group) -> Pause:
    """The question of a thread without a work order, and a message that waits behind it."""
    thread = turns.open_thread(by=people["ana"], team=team)
    run = turns.invoke(thread.pk, turns.Turn(template="writing", input={}), by=people["ana"])
    advance(run.pk, budget=60)
    message_queue.put(thread.pk, turns.Turn(input={"input": "later"}), by=people["ana"])
    return Pause.objects.open().select_related("run__thread", "checkpoint").get(run=run)


STATES: dict[str, Any] = {
    "no run": lambda people, team: turns.open_thread(by=people["ana"], team=team),
    "running": running,
    "paused": lambda people, team: drive(submit(people, team, "writing")),
    "talking": talking,
    "completed": answered,
    "failed": lambda people, team: drive(submit(people, team, "writing-fail")),
    "erased": erased,
}


def ids_of(made: Thread | WorkOrder | Pause | dict[str, str]) -> dict[str, str]:
    """The arguments of URLs that speak of this."""
    if isinstance(made, dict):
        return made
    if isinstance(made, Thread):
        return {"thread_id": made.shown_id}
    if isinstance(made, Pause):
        found: dict[str, str] = {"thread_id": made.run.thread.shown_id, "run_id": made.run.shown_id}
        waits = QueuedTurn.objects.waiting().filter(thread=made.run.thread_id).first()
        found |= {"turn_id": waits.shown_id} if waits else {}
        return {**found, "pause_id": made.shown_id, "checkpoint_id": made.checkpoint.shown_id}
    pause = Pause.objects.filter(run__thread=made.thread_id).order_by("id").last()
    decision = (
        Decision.objects.filter(pause__run__thread=made.thread_id).order_by("position").first()
    )
    found = {
        "order_id": made.shown_id,
        "thread_id": made.thread.shown_id,
        "run_id": made.latest_run.shown_id,
    }
    found |= {
        "checkpoint_id": head_of(made).shown_id,
        **({"pause_id": pause.shown_id} if pause else {}),
    }
    return {**found, **({"decision_id": decision.shown_id} if decision else {})}


def load_templates() -> None:
    cleaning.load_templates()
    # so that one slug names both
    definitions.edit_step_template("writing", title="Writing", function="test.plan", config={})


WRITES = re.compile(
    r"^\s*(?!\s|\(*SELECT\b|WITH\b|SAVEPOINT|RELEASE|ROLLBACK|EXPLAIN|SET\b|PRAGMA)|\b(INSERT\s+INTO|DELETE\s+FROM|UPDATE)\s",
    re.IGNORECASE,
)


@contextmanager
def watched() -> Iterator[list[str]]:
    """The statements that write, so that a test can name who sent one."""
    sent: list[str] = []

    def look(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if not sql.startswith("SELECT") and WRITES.search(sql):
            sent.append(sql[:160])
        return execute(sql, params, many, context)

    with connection.execute_wrapper(look):
        yield sent


def digest() -> dict[str, str]:
    """Table → digest of all its rows, of every table there is."""
    found = {}
    with connection.cursor() as cursor:
        for table in sorted(connection.introspection.table_names(cursor)):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            lines = sorted(
                repr([bytes(value) if isinstance(value, memoryview) else value for value in row])
                for row in cursor.fetchall()
            )
            found[table] = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    return found


def row_of(label: str) -> Model:
    """Any row of a model, for its pages in the admin."""
    found: Model | None = apps.get_model(label)._default_manager.order_by("pk").first()
    assert found is not None, (
        f"The matrix' world has no row of {label}: make one in tests/matrix/world.py, build()."
    )
    return found
