"""The `review` rules of a template's step as a type: `runs.workflows.reviews.rules` checks them."""

from __future__ import annotations

from typing import Literal, Required, TypedDict


class Actors(TypedDict, total=False):
    """People by username, groups by name."""

    users: list[str]
    groups: list[str]


class Stage(Actors):
    """From when on others may answer too, and are asked."""

    after: str
    """ISO 8601 duration since the question was opened, e.g.

    `PT4H` or `P2D`; in the deadline's calendar and zone.
    """


class StageDeadline(TypedDict, total=False):
    after: Required[str]
    """ISO 8601 duration since the turn of the stage began."""
    calendar: str
    zone: str
    """Both as of the question's `Deadline`, and as that one says where they are left out."""


class ReviewStage(TypedDict, total=False):
    """One of several questions about the same content, put to people of its own
    (docs/how-to/review-rules.md).
    """

    name: Required[str]
    """Unique among the stages; the data that this stage brings is under this name."""
    title: str
    """How people see it; the name in words where it says nothing."""
    question: str
    """What these people are asked, in a sentence."""
    reviewers: Actors
    quorum: int
    """How many of them must approve; 1 where it says nothing."""
    after: list[str]
    """The stages that must be complete before this one begins; none where it says nothing."""
    external: list[str]
    """As `Review.external`, for this stage."""
    deadline: StageDeadline
    """By when it must be complete, from its own turn on; then the question's outcome follows."""


class Deadline(TypedDict, total=False):
    """By when somebody answers, and what happens else (docs/how-to/deadlines.md)."""

    after: str
    """ISO 8601 duration since the question was opened; or the next time that a clock of the zone
    shows: `until 12:00`, `next day 09:00`, `next working day 17:00`. With a calendar that is on one
    of its days; a working day without one is of the team's calendar (that of its name), else of
    `business`."""
    calendar: str
    """Name of one of `WAYSTATION_CALENDARS`, e.g. `business`; "" counts every hour."""
    zone: str
    """IANA name of the time zone that days and business hours are counted in; "" for the
    server's.
    """
    outcome: str
    """What happens when nobody has answered: `expire` where it says nothing, `cancel`, `escalate`
    or `approve`; of a question with `Ask.otherwise`, that action.
    """


class Review(TypedDict, total=False):
    """The rules of one step's questions: who answers, by when and how
    (docs/reference/templates.md#review).
    """

    reviewers: Actors
    """Who may answer; whoever may see the thread where this names nobody."""
    within: Actors
    """Of a question whose step narrowed its rules: whom those rules name, who must name a reviewer
    too. No template says this: `runs.workflows.reviews.narrowing`.
    """
    narrowed: bool
    """Of a question: its step narrowed these rules."""
    quorum: int
    """How many different people must approve.

    One refusal, or one wish for a revision, decides alone.
    """
    stages: list[ReviewStage]
    """Several groups of reviewers, at the same time or one after another, in place of `reviewers`,
    `quorum` and `external`.

    All must approve.
    """
    self_approval: bool
    """Whether who asked for the work may approve it; true where it says nothing."""
    reason_required: list[str]
    """Answers that need words."""
    risk: Literal["low", "normal", "high"]
    """`high` is never answered in bulk nor from a link without a login."""
    step_up: bool
    """Whether who lets the run go on proves a fresh second factor, whatever the risk."""
    link_answers: bool
    """Whether a low-risk question may be answered from its link without a login."""
    external: list[str]
    """Mail addresses of people without an account who are asked too, each by a link of their own:
    `runs.workflows.external_reviewers`.
    """
    edits: bool
    """Whether the answer may bring an edited text of the content."""
    deadline: Deadline
    reminders: list[str]
    """ISO 8601 durations since the question was opened, after which those who may answer are
    reminded.
    """
    escalation: list[Stage]
    """From when on others may answer too."""
    undo: int
    """Seconds for which an approval may be taken back: the run goes on after them."""
