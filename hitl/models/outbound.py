"""What goes out to people and systems: where they are reached, what each was sent, and the links
they were given.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.db.models import F, Q
from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy

from checkpoints import ids
from checkpoints.database.clock import FromNow
from checkpoints.database.people import User
from checkpoints.models import SealedJsonField, Thread
from checkpoints.models.fields import MadeAtField, SealedTextField
from hitl.models.channels import services
from runs.models import Pause, Run


class Channel(models.TextChoices):
    """The ways out that are always there; `channel_choices` has the others as well."""

    EMAIL = "email", gettext_lazy("Mail")
    APPRISE = "apprise", gettext_lazy("Chat or push service")
    WEBHOOK = "webhook", "Webhook"


def channel_choices() -> list[tuple[str, str | Promise]]:
    """Every way out: with the channels that post questions themselves."""
    *before, webhook = Channel.choices
    posting = [(name, service.place) for name, service in sorted(services.items())]
    return [*before, *((name, place) for name, place in posting if place), webhook]


class Occasion(models.TextChoices):
    """Why something is sent."""

    ASKED = "asked", gettext_lazy("Asked")
    REFINED = "refined", gettext_lazy("Asked again: an answer did not fit")
    REMINDED = "reminded", gettext_lazy("Reminded")
    ESCALATED = "escalated", gettext_lazy("Escalated")
    MENTIONED = "mentioned", gettext_lazy("Mentioned")
    ANSWERED = "answered", gettext_lazy("Answered")
    CANCELLED = "cancelled", gettext_lazy("Cancelled")
    EXPIRED = "expired", gettext_lazy("Expired")
    REPLIED = "replied", gettext_lazy("Told what became of a reply")
    ORDER_COMPLETED = "order_completed", gettext_lazy("Order completed")
    ORDER_FAILED = "order_failed", gettext_lazy("Order failed")
    ORDER_CANCELLED = "order_cancelled", gettext_lazy("Order cancelled")
    ORDER_EXPIRED = "order_expired", gettext_lazy("Order expired")
    TEST = "test", gettext_lazy("Test")
    ACCOUNT = "account", gettext_lazy("About an account")


ASKING = (Occasion.ASKED, Occasion.REFINED, Occasion.REMINDED, Occasion.ESCALATED)
"""What is sent only while the question is open."""
ORDER_ENDS = (
    Occasion.ORDER_COMPLETED,
    Occasion.ORDER_FAILED,
    Occasion.ORDER_CANCELLED,
    Occasion.ORDER_EXPIRED,
)
"""What is about a work order and no question: told only where it was asked for by name."""
FOR_ENDPOINTS = [choice for choice in Occasion.choices if choice[0] != Occasion.ACCOUNT]
"""What people may have sent to another place than their account's own address."""


class EndpointQuerySet(models.QuerySet["Endpoint"]):
    def managed_by(self, user: User) -> EndpointQuerySet:
        """Those that a person may see and change: their own; their teams' with the right to it; all
        for a superuser.
        """
        if user.is_superuser:
            return self.filter(thread=None)
        mine = Q(owner=user)
        if user.has_perm("hitl.change_endpoint"):
            mine |= Q(team__in=user.groups.values("pk"))
        return self.filter(mine)

    def hearing(
        self, pause: Pause, *, people: Collection[int], groups: Collection[str]
    ) -> EndpointQuerySet:
        """Those that are told of a question: of these people, of its team and of the groups it
        names, of its thread, and everybody's.
        """
        run, threads = pause.run, [pause.run.thread_id]
        while run.parent is not None:  # who waits for a run's answers waits for its child runs' too
            run = run.parent
            threads.append(run.thread_id)
        teams = Q(team__name__in=groups) | (
            Q(team=pause.run.thread.team_id) if pause.run.thread.team_id else Q(pk__in=[])
        )
        everybody = Q(owner=None, team=None, thread=None)
        return self.filter(
            Q(owner__in=people) | teams | Q(thread__in=threads) | everybody, enabled=True
        )


class Endpoint(ids.HasShownId, models.Model):
    """A way to reach a person, a team, who waits for one thread's answers, or (where it names none)
    whoever listens to everything.

    A person's mail needs none: it goes to the address of their account. Their row of that channel
    only says that it is another, or off.
    """

    PREFIX = "end"

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    channel = models.CharField(max_length=16, choices=channel_choices)
    name = models.CharField(max_length=80, blank=True)
    target = SealedTextField(
        blank=True,
        help_text=(
            "A mail address, an Apprise URL or a webhook's URL. It may hold secrets, so it is "
            "never shown."
        ),
    )
    secrets = SealedJsonField(
        default=list,
        help_text=(
            '[{"secret": "whsec_…", "until": null}], newest first; a webhook is signed with each.'
        ),
    )
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, blank=True, related_name="endpoints"
    )
    team = models.ForeignKey(Group, models.CASCADE, null=True, blank=True, related_name="endpoints")
    thread = models.ForeignKey(
        Thread, models.CASCADE, null=True, blank=True, related_name="endpoints"
    )
    occasions = models.JSONField(
        default=list,
        blank=True,
        help_text="What it is told; all about questions where this is empty.",
    )
    templates = models.JSONField(
        default=list,
        db_default=[],
        blank=True,
        help_text="Slugs of the templates whose work it is told of; all where this is empty.",
    )
    enabled = models.BooleanField(default=True)
    why_disabled = models.CharField(max_length=300, blank=True)
    made_at = MadeAtField()

    objects = EndpointQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(owner=None, team=None)
                | Q(owner=None, thread=None)
                | Q(team=None, thread=None),
                name="endpoint_one_owner",
            ),
            models.UniqueConstraint(
                fields=["owner"],
                condition=Q(channel=Channel.EMAIL),
                name="endpoint_one_mail_per_person",
            ),
        ]

    def __str__(self) -> str:
        return self.name or self.shown_id

    @property
    def is_own_mail(self) -> bool:
        """Whether it is a person's own mail: of questions it is told whatever else is chosen."""
        return self.owner_id is not None and self.channel == Channel.EMAIL

    def hears(self, occasion: str, template: str) -> bool:
        """Whether it is told so of work by the template of this slug."""
        about_order = occasion in ORDER_ENDS
        if not about_order and self.is_own_mail:
            return True
        fits = not self.templates or template in self.templates
        return fits and (occasion in self.occasions or not (about_order or self.occasions))

    @property
    def told_of(self) -> list[str]:
        """The occasions that were chosen for it, in the reader's language."""
        labels = dict(Occasion.choices)
        return [str(labels.get(name, name)) for name in self.occasions]

    @property
    def whose(self) -> str:
        if self.owner is not None:
            return self.owner.get_full_name() or self.owner.get_username()
        return (
            self.team.name
            if self.team is not None
            else self.thread.shown_id
            if self.thread is not None
            else gettext("everybody")
        )


class DeliveryStatus(models.TextChoices):
    QUEUED = "queued", gettext_lazy("Queued")
    """Waits for its time: the first, or that of the next try."""
    SENDING = "sending", gettext_lazy("Sending")
    """A worker is at it until `lease_until`."""
    SENT = "sent", gettext_lazy("Sent")
    DEAD = "dead", gettext_lazy("Given up")
    """Given up after so many tries, or at once where trying again is of no use."""
    CANCELLED = "cancelled", gettext_lazy("Cancelled")
    """Overtaken: the question was closed before it was sent."""


class DeliveryQuerySet(models.QuerySet["Delivery"]):
    def due(self, *, now: dt.datetime | FromNow) -> DeliveryQuerySet:
        """Those whose time has come, and those whose worker was lost."""
        waiting = Q(status=DeliveryStatus.QUEUED, next_at__lte=now)
        return self.filter(waiting | Q(status=DeliveryStatus.SENDING, lease_until__lte=now))

    def visible_to(self, user: User) -> DeliveryQuerySet:
        """What was sent about threads that a person may see, and what went to themselves.

        Not what went to people and teams that they do not know: whom a group's name reaches, and
        which names there are, is for its members and for holders of `auth.view_user`.
        """
        threads = Thread.objects.visible_to(user)
        about = Q(pause__run__thread__in=threads) | Q(run__thread__in=threads)
        if not user.has_perm("auth.view_user"):
            teams = user.groups.values("pk")
            known = User.objects.filter(groups__in=teams).values("pk")
            about &= (Q(recipient=None) | Q(recipient__in=known)) & (
                Q(endpoint__team=None) | Q(endpoint__team__in=teams)
            )
        return self.filter(about | Q(recipient=user))

    def shown(self) -> DeliveryQuerySet:
        related = (
            "recipient",
            "endpoint__team",
            "endpoint__owner",
            "endpoint__thread",
            "pause__run__thread",
            "pause__run__work_order",
            "run__thread",
            "run__work_order",
        )
        return self.select_related(*related)


class Delivery(ids.HasShownId, models.Model):
    """One message to one place about one question.

    Its id is the message's own, on every try: a receiver that has seen it knows.
    """

    PREFIX = "dlv"

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    # the constraint has one
    pause = models.ForeignKey(
        Pause, models.PROTECT, null=True, related_name="deliveries", db_index=False
    )
    run = models.ForeignKey(
        Run,
        models.PROTECT,
        null=True,
        related_name="deliveries",
        db_index=False,
        help_text="Of an order, whose end it is about.",
    )
    occasion = models.CharField(max_length=16, choices=Occasion)
    mark = models.CharField(
        max_length=40, blank=True, help_text="Which of several, e.g. of the reminders."
    )
    channel = models.CharField(max_length=16, choices=channel_choices)
    place = models.CharField(
        max_length=80, help_text="Names the receiver: so nobody is told the same thing twice."
    )
    recipient = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="deliveries"
    )
    endpoint = models.ForeignKey(Endpoint, models.SET_NULL, null=True, related_name="deliveries")
    contact = SealedTextField(
        blank=True, help_text="The address of somebody who has no account here."
    )
    words = SealedTextField(
        blank=True, help_text="What is said instead of the question's own words."
    )
    status = models.CharField(max_length=16, choices=DeliveryStatus, default=DeliveryStatus.QUEUED)
    attempts = models.PositiveIntegerField(default=0)
    next_at = models.DateTimeField()
    lease_until = models.DateTimeField(null=True)
    claim = models.UUIDField(
        null=True,
        help_text="Of the worker that is at it: another's record of the same try is ignored.",
    )
    error = models.TextField(blank=True)
    kept_as = models.CharField(
        max_length=80,
        blank=True,
        db_default="",
        help_text="What the receiver knows it by, where it can be changed later.",
    )
    made_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True)

    objects = DeliveryQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "deliveries"
        permissions = [("mail_outside", "Can have mail sent to any address")]
        constraints = [
            models.UniqueConstraint(
                fields=["pause", "occasion", "mark", "place"], name="delivery_once"
            ),
            models.UniqueConstraint(
                fields=["run", "place"],
                condition=Q(run__isnull=False),
                name="delivery_once_of_an_end",
            ),
            models.CheckConstraint(
                condition=Q(status=DeliveryStatus.SENDING, lease_until__isnull=False)
                | ~Q(status=DeliveryStatus.SENDING) & Q(lease_until=None),
                name="delivery_lease_only_while_sending",
            ),
            models.CheckConstraint(
                condition=Q(status=DeliveryStatus.SENT, sent_at__isnull=False)
                | ~Q(status=DeliveryStatus.SENT) & Q(sent_at=None),
                name="delivery_sent_at_if_sent",
            ),
        ]
        indexes = [
            models.Index(
                fields=["next_at"],
                condition=Q(status=DeliveryStatus.QUEUED),
                name="delivery_queued_by_time",
            ),
            models.Index(
                fields=["lease_until"],
                condition=Q(status=DeliveryStatus.SENDING),
                name="delivery_sending_by_lease",
            ),
            models.Index(
                fields=["-id"], condition=Q(status=DeliveryStatus.DEAD), name="delivery_dead"
            ),
        ]

    def __str__(self) -> str:
        return self.shown_id

    @property
    def to(self) -> str:
        """Whom it goes to, as pages say it."""
        if self.endpoint is not None and self.recipient is None:
            return f"{self.endpoint} ({self.endpoint.whose})"
        if self.recipient is not None:
            return self.recipient.get_full_name() or self.recipient.get_username()
        if self.channel not in Channel.values:  # the address is a secret
            service = services.get(self.channel)
            return f"somebody in {service.label if service else self.channel.capitalize()}"
        return self.contact or "an endpoint that was removed"


class Link(models.Model):
    """A way in for one person to one revision of one question, until it expires.

    Only the token's digest is kept.
    """

    class Purpose(models.TextChoices):
        REVIEW = "review", "Look, then log in to answer"
        ANSWER = "answer", "Answer without logging in"
        REPLY = "reply", "Answer by replying to its mail"

    digest = models.CharField(max_length=64, primary_key=True)
    delivery = models.ForeignKey(Delivery, models.CASCADE, related_name="links")
    pause = models.ForeignKey(Pause, models.PROTECT, related_name="links")
    revision = models.PositiveIntegerField()
    recipient = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="+"
    )
    contact = SealedTextField(blank=True, help_text="As the delivery's.")
    purpose = models.CharField(max_length=16, choices=Purpose)
    made_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    mails_back = models.PositiveSmallIntegerField(
        default=0, db_default=0, help_text="Mails that said what became of a reply to it."
    )

    MAILS_BACK = 4
    """Mails that replies to one address bring at most, so no two machines write to each other for
    ever.
    """

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(expires_at__gt=F("made_at")), name="link_expires_after_it_was_made"
            ),
            models.CheckConstraint(
                condition=Q(used_at=None) | ~Q(purpose="review"), name="link_used_only_to_answer"
            ),
            models.CheckConstraint(condition=Q(mails_back__lte=4), name="link_mails_back_bounded"),
        ]

    def __str__(self) -> str:
        return str(self.delivery_id)


class InboundMail(models.Model):
    """A reply that was taken in, so that it is taken in once, however often it is delivered."""

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    link = models.ForeignKey(Link, models.CASCADE, related_name="mails")
    message_digest = models.CharField(max_length=64, help_text="Of its Message-ID.")
    outcome = models.CharField(max_length=64, help_text="`answered`, `voted`, or why it was not.")
    at = MadeAtField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["link", "message_digest"], name="inbound_mail_once")
        ]

    def __str__(self) -> str:
        return self.outcome


def active_secrets(endpoint: Endpoint, *, now: dt.datetime) -> list[str]:
    """The secrets that a webhook is signed with now, newest first."""
    kept: list[dict[str, Any]] = list(endpoint.secrets)
    return [
        secret["secret"]
        for secret in kept
        if secret["until"] is None or dt.datetime.fromisoformat(secret["until"]) > now
    ]
