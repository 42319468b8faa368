"""Views of lists that people keep: a name for what a list was asked."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group
from django.db import models
from django.db.models import Q

from checkpoints import ids
from checkpoints.models.fields import MadeAtField


class ViewedList(models.TextChoices):
    """The lists that there are views of; `hitl.find.saved` has each."""

    INBOX = "inbox", "Inbox"
    ORDERS = "orders", "Work orders"
    THREADS = "threads", "Threads"
    HISTORY = "history", "History"


class SavedViewQuerySet(models.QuerySet["SavedView"]):
    def visible_to(self, user: AbstractBaseUser | AnonymousUser) -> SavedViewQuerySet:
        """The own ones, and those that are shared with a team of the person's. A superuser sees no
        others: what somebody looks for is theirs.
        """
        return self.filter(Q(owner=user.pk) | Q(team__in=Group.objects.filter(user=user.pk)))


class SavedView(ids.HasShownId, models.Model):
    """What a list was asked, under a name. It shows whoever opens it what that person may see."""

    PREFIX = "view"

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    # the constraint below has one
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="saved_views", db_index=False
    )
    list = models.CharField(max_length=16, choices=ViewedList)
    name = models.CharField(max_length=80)
    query = models.CharField(
        max_length=2_000, blank=True, help_text="As the list's address has it."
    )
    team = models.ForeignKey(
        Group,
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        help_text="Its members see it too; its owner alone changes it.",
    )
    made_at = MadeAtField()

    objects = SavedViewQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "list", "name"], name="saved_view_named_once"),
            models.CheckConstraint(condition=~Q(name=""), name="saved_view_has_name"),
        ]

    def __str__(self) -> str:
        return self.name
