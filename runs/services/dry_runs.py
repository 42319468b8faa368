"""A dry run: all that can be told of work by a template before anybody orders it.

No step is called, for a step is an author's code and may act. Nothing is written.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from django.conf import settings
from django.contrib.auth.models import Group
from django.utils.translation import gettext, gettext_lazy, ngettext

from checkpoints.database import clock
from checkpoints.database.people import NAME, User
from runs import phases
from runs.definitions import freezing, readiness, rights, step_options, templates
from runs.definitions.errors import TemplateInvalid
from runs.models import StepTemplate, Template
from runs.services.work_orders import InputInvalid, check_input, check_words
from runs.workflows import registry
from runs.workflows.base import ConfigInvalid
from runs.workflows.registry import NotReady, UnknownStep, asks_by_itself, traits_of
from runs.workflows.reviews import deadlines
from runs.workflows.reviews import stages as stages_of
from runs.workflows.reviews.calendars import CalendarInvalid
from runs.workflows.reviews.review import Actors, Review
from runs.workflows.sequence import APPROVE, CANCEL, REVISE, FrozenStep

EVERYBODY = gettext_lazy("anyone on this order")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that would go wrong, or that is worth knowing."""

    level: Literal["error", "note"]
    code: str
    field: str
    text: str


@dataclass(frozen=True, kw_only=True)
class PlannedStage:
    """Further people who are asked when nobody has answered by then."""

    at: dt.datetime
    who: str


@dataclass(frozen=True, kw_only=True)
class PlannedPause:
    """The question that a step ends with. Times count from the dry run, as if it were asked now."""

    phase: str
    who: str
    people: int | None
    """How many people may answer; None where the rules name nobody."""
    quorum: int
    answers: Mapping[str, str]
    """Answer → name of the step that it leads to; "" where the run ends."""
    reminders: Sequence[dt.datetime]
    stages: Sequence[PlannedStage]
    deadline: dt.datetime | None
    outcome: str
    """What happens at the deadline; "" where there is none."""
    asks_for_data: bool


@dataclass(frozen=True, kw_only=True)
class PlannedStep:
    name: str
    title: str
    function: str
    skipped_when: Mapping[str, Any]
    """JSON Schema of the state in which it is passed over; {} where it always runs."""
    may_ask: bool
    """Whether its function may ask somebody by itself."""
    delivers: bool
    pause: PlannedPause | None
    sub_steps: Sequence[PlannedStep] = ()


@dataclass(frozen=True, kw_only=True)
class DryRun:
    findings: Sequence[Finding]
    steps: Sequence[PlannedStep]

    @property
    def ok(self) -> bool:
        return not any(finding.level == "error" for finding in self.findings)


@dataclass
class _Report:
    found: list[Finding] = field(default_factory=list)

    def error(self, code: str, field: str, text: str) -> None:
        self.found.append(Finding(level="error", code=code, field=field, text=text))

    def note(self, code: str, field: str, text: str) -> None:
        self.found.append(Finding(level="note", code=code, field=field, text=text))

    def errors(self, code: str, errors: Mapping[str, Sequence[str]]) -> None:
        for place, texts in errors.items():
            for text in texts:
                self.error(code, place, text)


def dry_run(
    slug: str,
    *,
    by: User,
    fields: Mapping[str, Any] | None = None,
    input: Mapping[str, Any] | None = None,
    request: str = "",
) -> DryRun:
    """Say what an order by a template would meet, and whom each of its steps would ask by when.

    Args:
        by: who would order.
        fields: of the template, where they are not saved yet; others are as in its current version.
        input, request: what the order would bring. The input is not looked at where it is None.
    """
    report = _Report()
    last = templates.newest(slug)
    try:
        values = templates.checked(slug, last, fields or {})
        template = Template(slug=slug, version=last.version + 1 if last else 1, **values)
        frozen = freezing.freeze_steps(template.steps)
    except TemplateInvalid as error:
        report.errors(error.code, error.errors)
        return DryRun(findings=report.found, steps=())
    _check_server(template, frozen, by, report)
    _check_order(template, frozen, by, input, request, report)
    _check_configs(frozen, "steps", report)
    steps = [
        _planned(step, place, frozen, by, report, "steps") for place, step in enumerate(frozen)
    ]
    return DryRun(findings=report.found, steps=steps)


def _check_server(
    template: Template, frozen: Sequence[FrozenStep], by: User, report: _Report
) -> None:
    if (lack := readiness.as_seen_by(by).why_not(template)) is not None:
        report.error(lack.code, "", lack.lacks)
        return
    try:
        registry.require(frozen, freezing.setting)
    except NotReady as error:
        report.error(error.code, "", str(error))


def _check_order(
    template: Template,
    frozen: Sequence[FrozenStep],
    by: User,
    input: Mapping[str, Any] | None,
    request: str,
    report: _Report,
) -> None:
    if (refusal := rights.why_not(template.slug, by)) is not None:
        report.error(refusal.code, "", str(refusal))
    if input is not None:
        try:
            check_words("", request)
            check_input(template, dict(input))
        except InputInvalid as error:
            report.errors(error.code, error.errors)
    if registry.need_request(frozen) and not request.strip():
        report.note(
            "request_needed", "request", gettext("An order must say in words what is wanted.")
        )
    if template.needs_repository:
        report.note(
            "repository_needed", "repository_url", gettext("An order must name a repository.")
        )


def _check_configs(frozen: Sequence[FrozenStep], place: str, report: _Report) -> None:
    """Configurations were checked when they were saved; functions may have changed since."""
    for number, step in enumerate(frozen):
        where = f"{place}.{number}"
        kind = StepTemplate.objects.filter(
            slug=step["step_template_slug"], version=step["step_template_version"]
        ).first()
        try:
            registry.find(step["function"])
            if kind is not None:
                registry.check_config(kind.function, kind.config)
        except UnknownStep as error:
            report.error("step_unknown", where, f"{step['name']}: {error}.")
        except ConfigInvalid as error:
            report.errors(
                "config_invalid", {f"{where}.config.{at}": error.errors[at] for at in error.errors}
            )
        _check_configs(step.get("sub_steps", []), f"{where}.sub_steps", report)


def _planned(
    step: FrozenStep,
    place: int,
    steps: Sequence[FrozenStep],
    by: User,
    report: _Report,
    within: str,
) -> PlannedStep:
    where = f"{within}.{place}"
    inner = step.get("sub_steps", [])
    return PlannedStep(
        name=step["name"],
        title=step["title"],
        function=step["function"],
        skipped_when=step.get("skip_when") or {},
        may_ask=asks_by_itself(step["function"]),
        delivers=traits_of(step["function"]).delivers,
        pause=_pause(step, place, steps, by, report, where) if step["pause_after"] else None,
        sub_steps=[
            _planned(each, number, inner, by, report, f"{where}.sub_steps")
            for number, each in enumerate(inner)
        ],
    )


def _pause(
    step: FrozenStep,
    place: int,
    steps: Sequence[FrozenStep],
    by: User,
    report: _Report,
    where: str,
) -> PlannedPause:
    review: Review = step.get("review") or {}
    reviewers = review.get("reviewers") or _of_stages(review)
    people = _people(reviewers) if any(reviewers.values()) else None
    quorum = stages_of.quorum(review)
    _check_people(people, quorum, review, by, report, f"{where}.review", step["name"])
    try:
        times = deadlines.of(review, clock.now(), step_options.calendars(), zone=settings.TIME_ZONE)
    except (deadlines.Unknown, CalendarInvalid) as error:
        report.error("deadline_invalid", f"{where}.review.deadline", str(error))
        times = deadlines.Timetable()
    follows = steps[place + 1]["name"] if place + 1 < len(steps) else ""
    answers = {
        APPROVE: follows,
        **({REVISE: step["revise_to"]} if step["max_revisions"] else {}),
        **{choice["name"]: choice["to"] for choice in step["choices"]},
        CANCEL: "",
    }
    stages = zip(times.stages, review.get("escalation", []), strict=False)
    deadline = review.get("deadline")
    return PlannedPause(
        phase=phases.words(step["pause_phase"]),
        who=_named(reviewers) or str(EVERYBODY),
        people=len(people) if people is not None else None,
        quorum=quorum,
        answers=answers,
        reminders=times.reminders,
        stages=[PlannedStage(at=at, who=_named(stage)) for at, stage in stages],
        deadline=times.deadline,
        outcome=str(deadline.get("outcome", "expire")) if deadline else "",
        asks_for_data=bool(step.get("required_inputs")),
    )


def _of_stages(review: Review) -> Actors:
    """Everybody whom the stages of a review name, together."""
    named: Actors = {"users": [], "groups": []}
    for stage in stages_of.of(review):
        actors = stage.get("reviewers") or {}
        named["users"] += actors.get("users", [])
        named["groups"] += actors.get("groups", [])
    return named


def _check_people(
    people: set[int] | None,
    quorum: int,
    review: Review,
    by: User,
    report: _Report,
    where: str,
    name: str,
) -> None:
    """Say where nobody could answer, or too few."""
    if people is None:
        return
    able = people if review.get("self_approval", True) else people - {by.pk}
    if not people:
        report.error(
            "nobody_to_ask",
            f"{where}.reviewers",
            gettext("%(step)s: nobody is in the groups that it asks.") % {"step": name},
        )
    elif len(able) < quorum and not stages_of.of(review):
        words = ngettext(
            "%(step)s: %(quorum)s must approve an order of yours, and only %(count)s person can.",
            "%(step)s: %(quorum)s must approve an order of yours, and only %(count)s people can.",
            len(able),
        )
        report.error(
            "quorum_too_high",
            f"{where}.quorum",
            words % {"step": name, "quorum": quorum, "count": len(able)},
        )


def _people(actors: Actors) -> set[int]:
    """Keys of the active accounts that rules name."""
    named = {f"{NAME}__in": actors.get("users", [])}
    active = User.objects.filter(is_active=True)
    found = set(active.filter(**named).values_list("pk", flat=True))
    groups = Group.objects.filter(name__in=actors.get("groups", []))
    return found | set(active.filter(groups__in=groups).values_list("pk", flat=True))


def _named(actors: Mapping[str, Any]) -> str:
    return ", ".join(_words(actors))


def _words(actors: Mapping[str, Any]) -> Iterator[str]:
    yield from actors.get("users", [])
    yield from (gettext("the group %(name)s") % {"name": name} for name in actors.get("groups", []))
