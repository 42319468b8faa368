"""Opens a pull request, or brings the open one up to date: the same answer however often it is
asked for.

A worker may die, or an answer be lost, after the forge has opened one. So each try looks for an
open one of the branch first; and forges refuse a second one for the same branch, which ends the
race of two tries in one that finds what the other opened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from runs.git.forges.places import TITLES, ForgeRepository
from runs.workflows import timing
from runs.workflows.base import PullRequest, PullRequestDraft, StepFailed
from runs.workflows.code import extras

LONGEST_SAID = 300
LIMITED = 60.0
"""Seconds to leave a forge alone that is asked too much and does not say for how long."""


class Exists(Exception):
    """The forge has an open pull request of this branch already."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """An open pull request as the forge has it."""

    number: int
    url: str
    title: str
    body: str


class Forge(Protocol):
    """One repository at a forge. Every method raises StepFailed as `failure` makes it."""

    def find(self, branch: str) -> Found | None:
        """The open pull request of the branch."""

    def create(self, wanted: PullRequestDraft) -> Found:
        """Raises Exists."""

    def update(self, found: Found, wanted: PullRequestDraft) -> None:
        """Give it the wanted title and body, where it has others."""


def propose(place: ForgeRepository, wanted: PullRequestDraft) -> PullRequest:
    """See `runs.workflows.base.Context.propose`."""
    forge = connect(place)
    request = forge.find(wanted.branch)
    if request is None:
        try:
            return _told(place, forge.create(wanted), opened=True)
        except Exists:  # of another try, which was as quick
            request = forge.find(wanted.branch)
    if request is None:
        raise failure(place, 409, "it says that there is one already, and shows none")
    forge.update(request, wanted)
    return _told(place, request, opened=False)


def connect(place: ForgeRepository) -> Forge:
    """The client of the place's kind, imported now."""
    extras.require(place.kind)
    forge: Forge = import_module(f"runs.git.forges.{place.kind}").connect(place)
    return forge


def _told(place: ForgeRepository, found: Found, *, opened: bool) -> PullRequest:
    if not re.fullmatch(r"https?://[!-~]{1,480}", found.url):  # it becomes a link on our pages
        raise failure(
            place, 502, "it gave no address of the pull request that a browser could open"
        )
    return PullRequest(number=found.number, url=found.url, opened=opened)


def failure(
    place: ForgeRepository, status: int, said: str, headers: Mapping[str, str] | None = None
) -> StepFailed:
    """What a forge's answer means for the step. `status` is HTTP's, 0 where there was no answer.

    The forge's own words are kept, without the token, cut to LONGEST_SAID.
    """
    name = TITLES[place.kind]
    reason = (
        " ".join(said.replace(place.token, "…").split())[:LONGEST_SAID].rstrip(".")
        or "it gave no reason"
    )
    kept = "The commits are kept in this run."
    wait = _wait(headers or {})
    if status == 429 or (status == 403 and wait is not None):
        seconds = LIMITED if wait is None else wait
        return StepFailed(
            f"{name} is asked too much at the moment and wants to be left alone for "
            f"{seconds:,.0f} seconds: {reason}. {kept} Retry then.",
            code="forge_limit",
            after=seconds,
        )
    if status == 0 or status >= 500:
        return StepFailed(
            f"{name} could not be reached: {reason}. {kept} Retry later.",
            code="forge_away",
            after=wait or 0.0,
        )
    return StepFailed(
        f"{name} refused the pull request ({status}): {reason}. {kept} Put that right, then retry.",
        code="forge_refused",
    )


def _wait(headers: Mapping[str, str]) -> float | None:
    """Seconds that the forge asks to be left alone; None where it says nothing of that."""
    low = {name.lower(): value for name, value in headers.items()}
    if low.get("retry-after", "").isdigit():
        return float(low["retry-after"])
    for kind in ("x-ratelimit", "ratelimit"):
        if low.get(f"{kind}-remaining") == "0" and low.get(f"{kind}-reset", "").isdigit():
            return max(1.0, float(low[f"{kind}-reset"]) - timing.now().timestamp())
    return None
