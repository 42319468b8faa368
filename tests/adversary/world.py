"""Who plays, over which workflows, and the book of effects: what each step that matters did,
written outside the product.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import Group, Permission, User
from django.core.cache import cache
from django.db import transaction
from django.test import Client
from django.utils import timezone

from checkpoints import ids
from checkpoints.models import Checkpoint, Thread
from hitl.models import (
    ApiToken,
    ChatAccount,
    ChatService,
    Comment,
    Decision,
    Delegation,
    InboundSource,
)
from hitl.models.outbound import Delivery
from hitl.outbound import links, replies
from runs import definitions
from runs.models import OWN_REDUCERS, Pause, QueuedTurn, Run, Schedule, WorkOrder
from runs.workflows.base import Ask, Context, Done, Go, Outcome, Outside, Report, State, StepFailed
from runs.workflows.registry import step
from runs.workflows.tool_calls import Call, approved
from runs.workflows.wait_for_input import ask_about_calls, wait_for_input

TEAM, REVIEWERS = "platform", "reviewers"
SUPPLIER, ACCOMPLICE = "billing@supplier.example", "accomplice@elsewhere.example"
"""An address that the template's author wrote down, and one that the requester did."""
MAIL_DOMAIN, CHATS = "example.org", "T0GAME"
SOURCE, SECRET = "partner", "whsec_" + "YWR2ZXJzYXJ5LWFkdmVyc2FyeS1hZHZlcnNhcnk="
TEAMS_SECRET = base64.b64encode(SECRET.encode()).decode()
VAT = {"type": "object", "properties": {"vat": {"type": "string"}}, "required": ["vat"]}


@dataclass(frozen=True)
class Effect:
    """Something that was done and cannot be taken back."""

    kind: str
    """`demanding`: the step called `require_approval` right before.

    `plain`: it did not. `call`: a call of a tool.
    """
    run: str
    thread: str
    step: str
    of: str
    """The step whose approval a demanding effect asked for."""
    material: str
    """What it acted on."""
    head: Any
    """Key of the thread's head at that moment."""
    at: Any
    call: str = ""


BOOK: list[Effect] = []
"""What was done in this game."""


def text_of(state: State) -> str:
    """What is to be paid, to whom: made of what everybody may try to change."""
    return f"Pay {state.get('amount', 0)} to {state.get('to', 'nobody')}"


def given(state: State, context: Context) -> State:
    """The state, on top of what an order was made with; of the engine's own keys those of the state
    alone.
    """
    return {
        **{name: value for name, value in context.order.input.items() if name not in OWN_REDUCERS},
        **state,
    }


def acted_on(state: State, of: str) -> str:
    """The text as it was approved, where a reviewer edited it."""
    edited: dict[str, str] = state.get("decided_content", {})
    return edited.get(of) or text_of(state)


def write_down(kind: str, context: Context, material: str, *, of: str = "", call: str = "") -> None:
    thread = Thread.objects.get(pk=ids.parse(Thread.PREFIX, context.thread_id))
    BOOK.append(
        Effect(
            kind,
            context.run_id,
            context.thread_id,
            context.step,
            of,
            material,
            thread.head_id,
            timezone.now(),
            call,
        )
    )


@step("adversary.plan")
def plan(state: State, context: Context) -> Outcome:
    """What is to be approved. The reviewers read the text, and the text is what counts."""
    known = given(state, context)
    update: dict[str, Any] = {
        name: known[name] for name in ("amount", "to", "fails") if name in known
    }
    if state.get("revision_feedback"):
        update["amount"] = int(known.get("amount", 0) or 0) + 1
    text = text_of({**known, **update})
    return Go(update=update, report=Report(content=text, material=text))


@step("adversary.consult")
def consult(state: State, context: Context) -> Outcome:
    """The same, and people outside are asked too: at the template's address, or at one that came
    with the order.
    """
    known = given(state, context)
    text = text_of(known)
    to = (
        [context.config["to"]]
        if context.config.get("to")
        else [str(known.get("contact") or ACCOMPLICE)]
    )
    return Ask(
        question="May this be paid?",
        actions={"approve": str(context.config["then"]), "revise": context.step},
        report=Report(content=text, material=text),
        update={name: known[name] for name in ("amount", "to") if name in known},
        outside=Outside(to=to, question="May this be paid?", content=text, ways=["approve"]),
    )


@step("adversary.ask")
def ask(state: State, context: Context) -> Outcome:
    """A question for data, whose schema leaves room for more."""
    return (
        wait_for_input(
            state,
            context,
            required_inputs=VAT,
            blocking_reason="missing_vat",
            question="Which VAT number?",
        )
        or Go()
    )


@step("adversary.act")
def act(state: State, context: Context) -> Outcome:
    """An effect that relies on its place behind the review alone."""
    write_down("plain", context, acted_on(given(state, context), "plan"))
    return Go()


@step("adversary.pay")
def pay(state: State, context: Context) -> Outcome:
    """An effect that demands the approval of what it acts on."""
    of = str(context.config.get("of", "plan"))
    text = acted_on(given(state, context), of)
    context.require_approval(of, text)
    write_down("demanding", context, text, of=of)
    if state.get("fails"):
        raise StepFailed("The bank is closed.", code="bank_closed")
    return Go(update={"paid": [*state.get("paid", []), text]})


@step("adversary.call")
def call(state: State, context: Context) -> Outcome:
    """Tool calls that people decide one by one."""
    wanted = [
        Call(
            id="transfer",
            tool="transfer",
            arguments={"amount": state.get("amount", 0), "to": str(state.get("to"))},
            editable=["/amount"],
        ),
        Call(id="drop", tool="drop", arguments={"name": "orders"}, risk="high"),
    ]
    if asked := ask_about_calls(state, context, calls=wanted):
        return asked
    for one in approved(context, context.step, wanted):
        write_down("call", context, arguments_of(one.arguments), call=f"{one.id}/{one.tool}")
    return Go()


def arguments_of(arguments: Any) -> str:
    return repr(sorted(dict(arguments).items()))


@step("adversary.end")
def end(state: State, context: Context) -> Outcome:
    return Done(update={"ended": True})


BY_TWO = {"reviewers": {"groups": [REVIEWERS]}, "quorum": 2, "self_approval": False}
BY_ONE = {"reviewers": {"groups": [REVIEWERS]}, "self_approval": False}
TIMED = {**BY_ONE, "deadline": {"after": "PT4H", "outcome": "expire"}, "edits": True}
PATIENT = {**BY_ONE, "undo": 3600}
SILENT = {
    "reviewers": {"users": ["cy"]},
    "deadline": {"after": "PT4H", "outcome": "approve"},
    "self_approval": False,
}
OUTSIDE = {**BY_TWO, "external": [SUPPLIER]}


def _asking(review: dict[str, Any], **more: Any) -> dict[str, Any]:
    asked = {
        "step_type": "planning",
        "name": "plan",
        "step_template_slug": "adv-plan",
        "pause_after": True,
        "pause_phase": "asking",
    }
    return {**asked, "review": review, **more}


def _kind(name: str, slug: str = "", **more: Any) -> dict[str, Any]:
    return {
        "step_type": "execute",
        "name": name,
        "step_template_slug": slug or f"adv-{name}",
        **more,
    }


END = _kind("end")
STEPS: dict[str, list[dict[str, Any]]] = {
    "adv-strict": [_asking(BY_TWO), _kind("act"), _kind("pay"), END],
    "adv-lax": [_asking({}), _kind("act"), _kind("pay"), END],
    "adv-free": [{**_asking({}), "pause_after": False}, _kind("act"), _kind("pay"), END],
    "adv-timed": [_asking(TIMED), _kind("ask"), _kind("act"), _kind("pay"), END],
    "adv-patient": [_asking(PATIENT), _kind("act"), _kind("pay"), END],
    "adv-silent": [_asking(SILENT), _kind("pay"), END],
    "adv-tools": [_kind("call", review=BY_ONE), _kind("act"), END],
    "adv-outside": [_kind("plan", "adv-consult", review=BY_TWO), _kind("pay"), END],
    "adv-supplier": [_kind("plan", "adv-supplier", review=OUTSIDE), _kind("pay"), END],
    "adv-family": [_asking(BY_ONE), _kind("kids"), _kind("act"), _kind("pay"), END],
}
"""Template → its steps: reviews with quorums, deadlines, undo and none; tool calls; people outside;
child runs that ask and act.
"""
INPUT = {"amount": 10, "to": "acme"}


def load() -> None:
    """The step templates and templates of the game."""
    for name in ("plan", "ask", "act", "pay", "call", "end"):
        definitions.edit_step_template(
            f"adv-{name}", title=name.capitalize(), function=f"adversary.{name}", config={}
        )
    definitions.edit_step_template(
        "adv-consult", title="Consult", function="adversary.consult", config={"then": "pay"}
    )
    definitions.edit_step_template(
        "adv-supplier",
        title="Consult",
        function="adversary.consult",
        config={"then": "pay", "to": SUPPLIER},
    )
    definitions.edit_step_template(
        "adv-pay-draft", title="Pay", function="adversary.pay", config={"of": "draft"}
    )
    draft = {**_asking(BY_ONE), "name": "draft"}
    inner = [draft, _kind("act"), _kind("pay-draft")]
    definitions.edit_step_template(
        "adv-kids", title="Kids", config={"into": "kids"}, sub_steps=inner
    )
    for slug, steps in STEPS.items():
        definitions.edit_template(slug, steps=steps, title=slug, needs_repository=False)


PEOPLE = ("ana", "ben", "cy", "dee", "zoe", "tess", "oli")
"""Ana asks for work; Ben and Cy review; Dee is in the team and no reviewer; Zoe is a stranger; Tess
writes templates; Oli operates.
"""


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

    def known(self) -> dict[str, list[str]]:
        """The arguments of URLs that there are, by name, the newest first."""
        found: dict[str, list[str]] = {
            "order_id": _shown(WorkOrder),
            "thread_id": _shown(Thread),
            "run_id": _shown(Run),
            "pause_id": _shown(Pause),
            "checkpoint_id": _shown(Checkpoint),
            "decision_id": _shown(Decision),
            "turn_id": _shown(QueuedTurn),
            "comment_id": _shown(Comment),
            "schedule_id": _shown(Schedule),
            "delivery_id": _shown(Delivery),
            "delegation_id": [
                str(pk)
                for pk in Delegation.objects.order_by("-pk").values_list("pk", flat=True)[:8]
            ],
            "slug": list(STEPS),
            "source": [SOURCE],
            "token": self.tokens[-12:],
        }
        return {name: values for name, values in found.items() if values}

    def reply_addresses(self) -> list[str]:
        """Where the newest mails are answered."""
        asking = Delivery.objects.filter(
            channel="email", recipient__isnull=False, pause__isnull=False
        )
        related = asking.select_related("pause", "recipient").order_by("-pk")
        return [address for one in related[:12] if (address := replies.address_of(one))]

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
    BOOK.clear()
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
        for service in ChatService.values:
            ChatAccount.objects.create(service=service, team=CHATS, account=name, user=user)
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
    return World(people, pages, rest)


@contextmanager
def undone() -> Iterator[Callable[[], None]]:
    """A game whose rows are taken back at its end, through durable transactions too.

    On the database of a test only.
    """
    cache.clear()
    around: Any = transaction.atomic()
    around._from_testcase = True  # as Django's TestCase marks its own
    with around:
        try:
            yield BOOK.clear
        finally:
            transaction.set_rollback(True)
