"""What leaves with an order's work: how far its repository's settings let it, and how origin and forge are reached."""

from __future__ import annotations

from django.conf import settings

from runs.forges.places import TITLES, BadForge, Place, checked_project, checked_url, project_of
from runs.forges.proposing import propose
from runs.models import Repository, WorkOrder, read_delivery, within
from runs.steps.access import Access, asks_for_token
from runs.workflows.base import Delivery, GiveCredential, Proposal, PullRequest, StepFailed


def delivery_of(order: WorkOrder) -> Delivery:
    """What may leave with an order's work now."""
    frozen = read_delivery(order.delivery)
    return within(frozen, order.repository.delivery) if order.repository else frozen


def page_of(order: WorkOrder) -> str:
    return f"{settings.WAYSTATION_URL}/work-orders/{order.shown_id}/"


def access_to(repository: Repository | None, credential: GiveCredential) -> Access | None:
    """What the origin is told who asks; None where operators named no credential, or the origin is one that takes none."""
    if repository is None or not repository.credential or not asks_for_token(repository.url):
        return None
    return Access(token=credential(repository.credential, to=repository.url))


def propose_at(repository: Repository | None, credential: GiveCredential, wanted: Proposal) -> PullRequest:
    """See `runs.workflows.base.Context.propose`."""
    if repository is None or not repository.forge:
        raise StepFailed("No forge is set for this repository, so no pull request was opened.", code="no_forge")
    if not repository.credential:
        raise StepFailed(
            f"No credential is set for {repository.name}, so {TITLES[repository.forge]} was not asked. The commits are kept in this run."
            " An operator names one in the repository's settings; then retry.",
            code="credential_missing",
        )
    return propose(_place(repository, credential), wanted)


def _place(repository: Repository, credential: GiveCredential) -> Place:
    try:
        url = checked_url(repository.forge, repository.forge_url, allowed=settings.WAYSTATION_FORGES)
        project = repository.forge_project or project_of(repository.url, kind=repository.forge, forge_url=url)
        checked_project(project, kind=repository.forge)
    except BadForge as error:
        words = f"The forge of {repository.name} was not asked: {error} The commits are kept in this run."
        raise StepFailed(words, code="forge_refused") from None
    return Place(
        kind=repository.forge,
        url=url,
        project=project,
        token=credential(repository.credential, to=url),
        seconds=settings.WAYSTATION_FORGE_SECONDS,
    )
