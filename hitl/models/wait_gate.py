"""What other systems bring: runs of other engines that wait here, answers that come before their
question, and signed sources.
"""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from checkpoints import ids
from checkpoints.models import SealedJsonField, Thread
from checkpoints.models.fields import MadeAtField, SealedTextField
from hitl.models.people.tokens import ApiToken
from runs.models import Pause, Run


class OuterRun(models.Model):
    """A run of another engine, by the id that it has there. Its waits are on one thread here."""

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    # the constraint below has one
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="+", db_index=False
    )
    name = models.CharField(max_length=200, help_text="Its id in that engine; the owner's own.")
    thread = models.OneToOneField(Thread, models.PROTECT, related_name="outer_run")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "name"], name="outer_run_name_once")
        ]
        indexes = [models.Index(fields=["name"], name="outer_run_by_name")]  # a colleague's

    def __str__(self) -> str:
        return self.name


class Wait(ids.HasShownId, models.Model):
    """One question of such a run."""

    class Reported(models.TextChoices):
        """What the other engine said of its run behind the answer."""

        NOTHING = ""
        RUNNING = "running"
        COMPLETED = "completed"
        FAILED = "failed"

    PREFIX = "wait"
    ENDED = (Reported.COMPLETED, Reported.FAILED)

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    # the constraint below has one
    outer = models.ForeignKey(OuterRun, models.PROTECT, related_name="waits", db_index=False)
    pause = models.OneToOneField(Pause, models.PROTECT, related_name="wait")
    node_id = models.CharField(max_length=200, help_text="Where that engine goes on.")
    digest = models.CharField(
        max_length=64,
        help_text="Of all that was asked; of one that was asked anew, of that and its id.",
    )
    recipients = SealedJsonField(
        default=list,
        help_text="Who is told beside those who may answer: address and question each.",
    )
    callback_url = SealedTextField(
        blank=True, help_text="Where the answer is told; checked when it is sent."
    )
    callback_secret = SealedTextField(blank=True, help_text="whsec_…: signs what is sent there.")
    token = models.ForeignKey(
        ApiToken,
        models.SET_NULL,
        null=True,
        related_name="waits",
        help_text="The one that asked, which never answers; null where a person or a process did.",
    )
    reported = models.CharField(
        max_length=9,
        choices=Reported,
        default=Reported.NOTHING,
        db_default=Reported.NOTHING,
        blank=True,
        help_text="What that engine said of its run since the answer; empty for nothing yet.",
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["outer", "digest"], name="wait_same_once")]

    def __str__(self) -> str:
        return self.shown_id


class EarlyQuerySet(models.QuerySet["EarlyAnswer"]):
    def kept(self) -> EarlyQuerySet:
        return self.filter(status=EarlyAnswer.Status.KEPT)


class EarlyAnswer(ids.HasShownId, models.Model):
    """An answer that came before its question.

    It is given once that opens, through `decide` and by who sent it.
    """

    PREFIX = "erl"

    class Status(models.TextChoices):
        KEPT = "kept"
        TAKING = "taking"
        """Bound to the question that opened: being given to it, or put off while somebody has
        claimed it or another stage is asked first.
        """
        TAKEN = "taken"
        REFUSED = "refused"
        """It did not fit, came too late after all, or who sent it may not answer; `error` says
        which.
        """
        EXPIRED = "expired"
        """Its question never came."""

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    thread = models.ForeignKey(Thread, models.PROTECT, related_name="+")
    run = models.ForeignKey(
        Run,
        models.PROTECT,
        null=True,
        related_name="+",
        help_text="Null for a run of another engine.",
    )
    node_id = models.CharField(
        max_length=200,
        blank=True,
        help_text="The step, or the other engine's node, whose question it is for.",
    )
    input_type = models.CharField(max_length=100, blank=True)
    event = SealedJsonField(help_text="The ResumeEvent.")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    via = models.CharField(max_length=16)
    token = models.ForeignKey(
        ApiToken,
        models.SET_NULL,
        null=True,
        related_name="+",
        help_text="The one that sent it; null where a person, a process or a source did.",
    )
    status = models.CharField(max_length=16, choices=Status, default=Status.KEPT)
    pause = models.ForeignKey(
        Pause,
        models.PROTECT,
        null=True,
        related_name="early_answers",
        help_text="The question that it was given to.",
    )
    error = SealedTextField(blank=True)
    received_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    changed_at = models.DateTimeField()

    objects = EarlyQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["thread", "node_id", "input_type"],
                condition=Q(status="kept"),
                name="early_answer_one_per_question",
            ),
            models.CheckConstraint(
                condition=Q(status__in=["kept", "expired"], pause__isnull=True)
                | Q(status__in=["taking", "taken", "refused"], pause__isnull=False),
                name="early_answer_has_its_question",
            ),
            models.CheckConstraint(
                condition=~Q(node_id="") | ~Q(input_type=""), name="early_answer_names_its_question"
            ),
        ]
        indexes = [
            # the sweep
            models.Index(
                fields=["expires_at"],
                condition=Q(status__in=["kept", "taking"]),
                name="early_answer_by_expiry",
            ),
        ]

    def __str__(self) -> str:
        return self.shown_id


class InboundSource(models.Model):
    """A system that sends signed events; it acts as a person, and sees what that one sees."""

    name = models.SlugField(max_length=80, primary_key=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="inbound_sources"
    )
    secrets = SealedJsonField(
        default=list,
        help_text="whsec_…, newest first; each of them signs, so that one can be replaced.",
    )
    active = models.BooleanField(default=True)
    created_at = MadeAtField()
    last_used_at = models.DateTimeField(null=True, editable=False)

    def __str__(self) -> str:
        return self.name
