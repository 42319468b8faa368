"""What leaves with an order's work: how far its repository's settings let it, and how origin and
forge are reached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings

from runs.definitions import rights
from runs.git.access import Access, asks_for_token
from runs.git.forges.places import (
    TITLES,
    BadForge,
    ForgeRepository,
    checked_project,
    checked_url,
    project_of,
)
from runs.git.forges.proposing import propose
from runs.models import Repository, Run, WorkOrder, read_delivery, within
from runs.workflows.base import (
    DeliveryPolicy,
    GiveCredential,
    PullRequest,
    PullRequestDraft,
    StepFailed,
)
from runs.workflows.sequence import FrozenStep


def delivery_of(order: WorkOrder) -> DeliveryPolicy:
    """What may leave with an order's work now."""
    frozen = read_delivery(order.delivery)
    return within(frozen, order.repository.delivery) if order.repository else frozen


def require_right(
    run: Run,
    order: WorkOrder | None,
    steps: Sequence[FrozenStep],
    metadata: Mapping[str, Any],
    *,
    at: str,
) -> bool:
    """Raise StepFailed where this run's work may not leave, as rights are at this moment; whether a
    step before `at` asked a person.

    Asked at every push and pull request, whichever step makes it: what was allowed at the order may
    be forbidden by now.
    """
    if order is None:
        raise StepFailed(
            "This run has no work order, so nothing of it is delivered.",
            code="delivery_not_allowed",
        )
    reviewed = rights.is_reviewed(steps, at, skipped=metadata.get("skipped", ()))
    people = rights.people_behind(order, run.started_by_id)
    try:
        rights.check_delivery(
            order.repository_url, run.frozen.template_slug, people, reviewed=reviewed
        )
    except rights.NotPermitted as error:
        message = (
            f"{error} Nothing was pushed; the commits are kept in this run. Retry once an "
            "operator has allowed it."
        )
        raise StepFailed(message, code=error.code) from None
    return reviewed


def page_of(order: WorkOrder) -> str:
    return f"{settings.WAYSTATION_URL}/work-orders/{order.shown_id}/"


def access_to(repository: Repository | None, credential: GiveCredential) -> Access | None:
    """What the origin is told who asks; None where operators named no credential, or the origin is
    one that takes none.
    """
    if repository is None or not repository.credential or not asks_for_token(repository.url):
        return None
    return Access(token=credential(repository.credential, to=repository.url))


def propose_at(
    repository: Repository | None, credential: GiveCredential, wanted: PullRequestDraft
) -> PullRequest:
    """See `runs.workflows.base.Context.propose`."""
    if repository is None or not repository.forge:
        raise StepFailed(
            "No forge is set for this repository, so no pull request was opened.", code="no_forge"
        )
    if not repository.credential:
        raise StepFailed(
            f"No credential is set for {repository.name}, so {TITLES[repository.forge]} was not "
            "asked. The commits are kept in this run."
            " An operator names one in the repository's settings; then retry.",
            code="credential_missing",
        )
    return propose(_place(repository, credential), wanted)


def _place(repository: Repository, credential: GiveCredential) -> ForgeRepository:
    try:
        url = checked_url(
            repository.forge, repository.forge_url, allowed=settings.WAYSTATION_FORGES
        )
        project = repository.forge_project or project_of(
            repository.url, kind=repository.forge, forge_url=url
        )
        checked_project(project, kind=repository.forge)
    except BadForge as error:
        message = (
            f"The forge of {repository.name} was not asked: {error} The commits are kept in "
            "this run."
        )
        raise StepFailed(message, code="forge_refused") from None
    return ForgeRepository(
        kind=repository.forge,
        url=url,
        project=project,
        token=credential(repository.credential, to=url),
        seconds=settings.WAYSTATION_FORGE_SECONDS,
    )
