"""What work is made of, as operators write it down: kinds of steps, templates, the definitions they
are frozen to, repositories.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, Self, TypeVar

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group, PermissionsMixin
from django.db import models
from django.db.models import Q

from checkpoints import ids
from checkpoints.models import JsonTextField, Thread
from checkpoints.models.fields import MadeAtField
from runs.models.frequency import HOW_LONG, PROMISES, WHEN, Frequency
from runs.workflows import owned, sequence, tool_calls
from runs.workflows.base import DeliveryPolicy

Row = TypeVar("Row", bound=models.Model)


class VersionedQuerySet(models.QuerySet[Row]):
    """Rows with a slug and a version each, of which the newest of a slug is current."""

    def current(self) -> Self:
        """The newest version of each slug."""
        rows: models.Manager[Row] = self.model._default_manager
        newest = rows.filter(slug=models.OuterRef("slug")).order_by("-version").values("version")
        return self.filter(version=models.Subquery(newest[:1]))

    def matching(self, words: str) -> Self:
        """Those with these words in their slug or title; all of them where there are no words."""
        return self.filter(Q(slug__icontains=words) | Q(title__icontains=words)) if words else self


class StepTemplate(models.Model):
    """A versioned kind of step: which function runs, and with what configuration.

    An edit makes a new version.
    """

    slug = models.SlugField(max_length=80)
    version = models.PositiveIntegerField(default=1)
    title = models.CharField(max_length=120)
    declared = models.CharField(max_length=64, default="", editable=False, db_default="")
    """Digest of the declaration in code that this version was saved from; empty where a person
    saved it.
    """
    function = models.CharField(
        max_length=120, help_text="The registered step function, e.g. repo_tidy.plan."
    )
    config = models.JSONField(default=dict, blank=True)
    sub_steps = models.JSONField(
        default=list,
        blank=True,
        help_text=(
            "Ordered steps that the step's child runs take, as in a template. Then the function "
            "is flow.sub_steps."
        ),
    )
    created_at = MadeAtField()

    objects = VersionedQuerySet["StepTemplate"].as_manager()

    class Meta:
        constraints = [
            # also: latest by slug
            models.UniqueConstraint(fields=["slug", "version"], name="step_template_version_once"),
            models.CheckConstraint(
                condition=Q(version__gte=1), name="step_template_version_from_one"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.slug} v{self.version}"


class Template(models.Model):
    """A versioned recipe: ordered steps, and where a person is asked.

    An edit makes a new version; a work order freezes one.
    """

    slug = models.SlugField(max_length=80)
    version = models.PositiveIntegerField(default=1)
    title = models.CharField(max_length=120)
    description = models.TextField(blank=True)
    steps = models.JSONField(
        help_text=(
            "Ordered: step_type, step_template_slug, pause_after, pause_phase; if wanted name, "
            "revise_to, choices, max_revisions."
        )
    )
    input_schema = models.JSONField(
        default=dict, blank=True, help_text="JSON Schema 2020-12 of a work order's input."
    )
    reducers = models.JSONField(
        default=dict,
        blank=True,
        help_text=(
            "State key → replace, append, merge, add, upsert_by_id or ephemeral; others are "
            "replaced."
        ),
    )
    state_schema = models.JSONField(
        default=dict,
        blank=True,
        db_default=models.Value({}, models.JSONField()),
        help_text="JSON Schema of the state: what a step writes is checked against it.",
    )
    needs_repository = models.BooleanField(default=True)
    frequency = models.CharField(
        max_length=8, choices=Frequency, default=Frequency.STEP, help_text=WHEN
    )
    retention = models.JSONField(default=dict, blank=True, help_text=HOW_LONG)
    size_budget = models.BigIntegerField(
        null=True,
        blank=True,
        help_text="Bytes that one run may write; empty for WAYSTATION_RUN_BYTES.",
    )
    declared = models.CharField(max_length=64, default="", editable=False, db_default="")
    """As of a step template."""
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = MadeAtField()

    objects = VersionedQuerySet["Template"].as_manager()

    class Meta:
        constraints = [
            # also: latest by slug
            models.UniqueConstraint(fields=["slug", "version"], name="template_version_once"),
            models.CheckConstraint(condition=Q(version__gte=1), name="template_version_from_one"),
            models.CheckConstraint(
                condition=Q(size_budget__isnull=True) | Q(size_budget__gte=1),
                name="template_budget_from_one",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.slug} v{self.version}"

    @property
    def frequency_promise(self) -> str:
        """What holds of its runs' steps."""
        return PROMISES[self.frequency]


class TemplateAccess(models.Model):
    """Who may order by a template, whichever version is current.

    A template without such a row is everybody's.
    """

    slug = models.SlugField(
        max_length=80,
        help_text="The template's slug. All of its versions are meant, those to come too.",
    )
    enabled = models.BooleanField(
        default=True,
        help_text=(
            "Off: nobody begins new work by this template. Work that was ordered before goes on."
        ),
    )
    groups = models.ManyToManyField(
        Group,
        blank=True,
        related_name="+",
        help_text=(
            "Whose members may order by it. None chosen: everybody who can log in. Superusers "
            "always may."
        ),
    )
    restricted = models.BooleanField(
        default=False,
        editable=False,
        help_text="Whether groups were chosen; it stays so when a chosen group is deleted.",
    )
    default = models.BooleanField(
        default=False,
        db_default=False,
        help_text=(
            "Orders that name no template go by this one, where their repository has no default "
            "of its own."
        ),
    )

    class Meta:
        verbose_name = "right to a template"
        verbose_name_plural = "rights to templates"
        constraints = [
            models.UniqueConstraint(fields=["slug"], name="template_access_slug_once"),
            models.UniqueConstraint(
                fields=["default"],
                condition=Q(default=True),
                name="template_default_once",
                violation_error_message="Another template is the default. Take that back first.",
            ),
        ]

    def __str__(self) -> str:
        return self.slug


OWN_REDUCERS = {
    "decided": "merge",
    "decided_content": "merge",
    "gathered": "merge",
    tool_calls.DECISIONS: "merge",
}
"""Of the keys that the engine itself writes: what child runs decided at the same time joins."""


class Definition(models.Model):
    """A template with its step templates filled in, frozen under the digest of its content.

    Never changed.
    """

    digest = models.CharField(primary_key=True, max_length=64)
    template_slug = models.CharField(max_length=80)
    template_version = models.PositiveIntegerField()
    content = JsonTextField(help_text='{"steps": [FrozenStep]}')
    created_at = MadeAtField()

    def __str__(self) -> str:
        return f"{self.template_slug} v{self.template_version}"

    @classmethod
    def known(cls, digest: str) -> Definition:
        """The definition of that digest, read once per process: its content never changes."""
        return _definition(digest)

    @property
    def reducers(self) -> dict[str, str]:
        """State key → name of its reducer; keys not named are replaced."""
        rules: dict[str, str] = self.content.get("reducers", {})
        kept = {key: keeps.reducer for key, keeps in owned.kept().items()}
        return {**OWN_REDUCERS, **kept, **rules}

    @property
    def state_schema(self) -> dict[str, Any]:
        """What a step's writing is checked against; {} where the state is free."""
        found: dict[str, Any] = self.content.get("state_schema", {})
        return found

    @property
    def frequency(self) -> Frequency:
        return Frequency(self.content.get("frequency", Frequency.STEP))

    @property
    def frequency_promise(self) -> str:
        return PROMISES[self.frequency]

    @property
    def size_budget(self) -> int:
        """Bytes that one run may write; 0 for any number."""
        return int(self.content.get("size_budget") or settings.WAYSTATION_RUN_BYTES)

    @property
    def steps(self) -> list[sequence.FrozenStep]:
        steps: list[sequence.FrozenStep] = self.content["steps"]
        return steps


@lru_cache(maxsize=256)
def _definition(digest: str) -> Definition:
    return Definition.objects.get(pk=digest)


class PushPolicy(models.TextChoices):
    NEVER = "never", "Never"
    ASKED = "asked", "Where the order asks for it"
    BRANCH = "branch", "Always: the order's own branch"


class PullRequestPolicy(models.TextChoices):
    NEVER = "never", "None"
    DRAFT = "draft", "A draft"
    READY = "ready", "Ready for review"


class ForgeKind(models.TextChoices):
    NONE = "", "None"
    GITHUB = "github", "GitHub"
    GITLAB = "gitlab", "GitLab"


class RepositoryQuerySet(models.QuerySet["Repository"]):
    def visible_to(self, user: AbstractBaseUser | AnonymousUser) -> RepositoryQuerySet:
        """Those that a person may be shown: to operators all, to others those of orders that they
        see.
        """
        if isinstance(user, PermissionsMixin) and user.has_perm("runs.view_repository"):
            return self
        return self.filter(work_orders__thread__in=Thread.objects.visible_to(user)).distinct()


class Repository(ids.HasShownId, models.Model):
    """What operators settled about a repository: what orders on it begin with, whether they may be
    made, and what may leave with them.
    """

    PREFIX = "repo"

    id = models.UUIDField(primary_key=True, default=ids.new, editable=False)
    name = models.CharField(max_length=120)
    url = models.CharField(
        max_length=500,
        help_text="A local path inside the allowed folders, or a remote URL of an allowed host.",
    )
    default_template = models.CharField(
        max_length=80, blank=True, help_text="Slug of the template of orders that name none."
    )
    check_command = models.JSONField(
        default=list,
        blank=True,
        help_text=(
            'An argument list such as ["python", "-m", "pytest", "-q"]; never a shell string.'
        ),
    )
    author = models.CharField(
        max_length=200,
        blank=True,
        help_text="Author of commits, Name <mail>; empty for Waystation's own.",
    )
    use_template_execution = models.BooleanField(
        default=True, help_text="Whether new work orders may be made on it."
    )
    base_branch = models.CharField(
        max_length=200,
        blank=True,
        help_text=(
            "Where orders begin and pull requests lead; empty for the repository's default branch."
        ),
    )
    push_policy = models.CharField(
        max_length=8,
        choices=PushPolicy,
        default=PushPolicy.ASKED,
        help_text="When an order's branch is pushed. Nothing else ever is.",
    )
    pull_request_policy = models.CharField(
        max_length=8,
        choices=PullRequestPolicy,
        default=PullRequestPolicy.NEVER,
        help_text="What is opened once the branch is pushed.",
    )
    forge = models.CharField(
        max_length=8, choices=ForgeKind, blank=True, help_text="Where pull requests are opened."
    )
    forge_url = models.CharField(
        max_length=500,
        blank=True,
        help_text="Where its REST interface begins; empty for the forge's own service.",
    )
    forge_project = models.CharField(
        max_length=300,
        blank=True,
        help_text="owner/name at the forge; empty where the repository's URL says it.",
    )
    credential = models.CharField(
        max_length=80,
        blank=True,
        help_text="Name of the credential with the token for clones, pushes and pull requests.",
    )
    use_groups = models.ManyToManyField(
        Group,
        blank=True,
        related_name="+",
        verbose_name="who may use it",
        help_text=(
            "Groups whose members may make work orders on it. None chosen: everybody who can "
            "log in. Superusers always may."
        ),
    )
    use_restricted = models.BooleanField(default=False, editable=False)
    delivery_groups = models.ManyToManyField(
        Group,
        blank=True,
        related_name="+",
        verbose_name="who may have work delivered",
        help_text="Groups whose members' orders may push to it and open pull requests. None "
        "chosen: "
        "whoever may use it. "
        "What nobody reviewed leaves for holders of “Can have work delivered that nobody "
        "reviewed” alone.",
    )
    delivery_restricted = models.BooleanField(default=False, editable=False)
    allowed_templates = models.JSONField(
        default=list,
        blank=True,
        help_text=(
            'Slugs of the templates that may be ordered on it, such as ["repo-tidy"]; empty for '
            "all."
        ),
    )
    created_at = MadeAtField()

    objects = RepositoryQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "repositories"
        permissions = [("deliver_unreviewed", "Can have work delivered that nobody reviewed")]
        constraints = [
            models.UniqueConstraint(fields=["url"], name="repository_url_once"),
            models.CheckConstraint(
                condition=Q(push_policy__in=PushPolicy.values), name="repository_push_policy_known"
            ),
            models.CheckConstraint(
                condition=Q(pull_request_policy="never")
                | (
                    Q(pull_request_policy__in=PullRequestPolicy.values, push_policy="branch")
                    & ~Q(forge="")
                ),
                name="repository_pull_request_needs_push_and_forge",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def delivery(self) -> DeliveryPolicy:
        """What may leave with an order's work, as it is settled now."""
        return read_delivery(
            {
                "push": self.push_policy,
                "pull_request": self.pull_request_policy,
                "base_branch": self.base_branch,
            }
        )


def read_delivery(kept: dict[str, str]) -> DeliveryPolicy:
    """The settings that an order was frozen with; those of orders before there were any are the
    usual ones.
    """
    # the constraints above name the same words
    return DeliveryPolicy(**kept)  # type: ignore[arg-type]


def within(frozen: DeliveryPolicy, now: DeliveryPolicy) -> DeliveryPolicy:
    """What an order was made with, less what its repository no longer allows.

    Who approved it was shown no more than that.
    """
    if "never" in (frozen.push, now.push):
        return replace(frozen, push="never", pull_request="never")
    proposes = frozen.push == "branch" and now.pull_request != "never"
    return replace(frozen, pull_request=frozen.pull_request if proposes else "never")
