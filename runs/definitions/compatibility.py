"""Runs under way against the code that is here now: would their next steps still do what was asked
for?
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import Count, FilteredRelation, Q, QuerySet

from checkpoints import ids
from checkpoints.state import codec
from runs.definitions.errors import TemplateInvalid
from runs.definitions.freezing import freeze_steps
from runs.models import Definition, Pause, Run, Template
from runs.states import LIVE, PENDING, PauseStatus
from runs.workflows.code.asked import jumps
from runs.workflows.code.compatibility import BAD as BAD
from runs.workflows.code.compatibility import VERDICTS as VERDICTS
from runs.workflows.code.compatibility import Verdict, judge
from runs.workflows.registry import UnknownStep, find
from runs.workflows.sequence import FrozenStep, following

SHOWN = 10


@dataclass(frozen=True)
class Found:
    """The live runs of one definition that have one verdict."""

    definition: str
    """Its digest."""
    template: str
    """With its version."""
    verdict: Verdict
    steps: tuple[str, ...]
    """The steps at or ahead of these runs that the verdict is about, in their order; none where all
    is well.
    """
    held: tuple[str, ...]
    """Those of them before which runs wait until an operator accepts the changed code."""
    count: int
    runs: tuple[str, ...]
    """Shown ids of the oldest of them, up to SHOWN; none where `report` is to name none."""

    @property
    def slug(self) -> str:
        """The template, without its version."""
        return self.template.rpartition(" v")[0]


Place = tuple[str, str]
"""Where runs stand: the step they are at or wait to begin, and, as JSON, the answers out of the
question they wait at.
"""


def report(*, verdicts: Sequence[Verdict] = VERDICTS, names_runs: bool = True) -> list[Found]:
    """Live runs with one of these verdicts, by definition: two queries over all runs, then one for
    each line whose runs are named.

    A step that jumps (`Go(to=…)`) may lead back to one that was judged to be behind.
    """
    places, definitions = _places(_live())
    return [
        step
        for digest in sorted(places)
        for step in _judge(definitions[digest], places[digest], verdicts, names_runs)
    ]


def standing(template: str, verdict: Verdict) -> QuerySet[Run]:
    """The live runs of all versions of a template that have one verdict."""
    places, definitions = _places(_live().filter(definition__template_slug=template))
    here = Q(pk__in=[])
    for digest in places:
        there = _by_verdict(definitions[digest], places[digest]).get(verdict, [])
        here |= _at(there) & Q(definition=digest)
    runs: QuerySet[Run] = _live().filter(here)
    return runs


def _places(
    live: QuerySet[Any],
) -> tuple[dict[str, dict[Place, int]], dict[str, Definition]]:
    """Digest of each definition → where its runs stand, and how many; and the definitions."""
    places: dict[str, dict[Place, int]] = {}
    grouped = (
        live.values_list("definition", "thread__head__next_step", "question__answers")
        .annotate(count=Count("pk"))
        .order_by()
    )
    for digest, next_step, answers, count in grouped:
        places.setdefault(digest, {})[next_step or "", codec.encode(answers or {})] = count
    return places, Definition.objects.in_bulk(list(places))


def _live() -> QuerySet[Any]:
    """Live runs, each with its open `question` where it has one."""
    question = FilteredRelation("pauses", condition=Q(pauses__status=PauseStatus.OPEN))
    return Run.objects.filter(status__in=sorted(LIVE)).annotate(question=question)


def _judge(
    definition: Definition,
    places: dict[Place, int],
    wanted: Sequence[Verdict],
    names_runs: bool,
) -> Iterator[Found]:
    steps = definition.steps
    verdicts = {step["name"]: _verdict(step) for step in steps}
    ahead = {place: _ahead(steps, place) for place in places}
    there = _by_verdict(definition, places)
    for verdict in VERDICTS:
        if verdict not in there or verdict not in wanted:
            continue
        at = there[verdict]
        meant = {
            name
            for place in at
            for name in ahead[place]
            if verdicts[name] == verdict != "compatible"
        }
        yield Found(
            definition=definition.digest,
            template=str(definition),
            verdict=verdict,
            steps=tuple(step["name"] for step in steps if step["name"] in meant),
            held=tuple(step["name"] for step in steps if step["name"] in meant and _waits(step)),
            count=sum(places[place] for place in at),
            runs=tuple(ids.show(Run.PREFIX, run) for run in _runs(definition, at))
            if names_runs
            else (),
        )


def _by_verdict(definition: Definition, places: Iterable[Place]) -> dict[Verdict, list[Place]]:
    """The places by the worst verdict of the steps that may still run from there."""
    verdicts = {step["name"]: _verdict(step) for step in definition.steps}
    there: dict[Verdict, list[Place]] = {}
    for place in places:
        worst: Verdict = min(
            (verdicts[name] for name in _ahead(definition.steps, place)),
            key=VERDICTS.index,
            default="compatible",
        )
        there.setdefault(worst, []).append(place)
    return there


def _runs(definition: Definition, places: Sequence[Place]) -> list[uuid.UUID]:
    return list(
        _live()
        .filter(_at(places), definition=definition)
        .order_by("pk")
        .values_list("pk", flat=True)[:SHOWN]
    )


def _at(places: Iterable[Place]) -> Q:
    here = Q(pk__in=[])
    for next_step, answers in places:
        question = (
            Q(question__answers=json.loads(answers))
            if answers != "{}"
            else Q(question__isnull=True)
        )
        here |= Q(thread__head__next_step=next_step) & question
    return here


def _ahead(steps: Sequence[FrozenStep], place: Place) -> set[str]:
    """The steps that may still run: by the template's order and by answers.

    All, where the place is none of them.
    """
    known = {step["name"]: step for step in steps}
    next_step, answers = place
    names = [next_step] if next_step else list(json.loads(answers).values())
    if not names or not known.keys() >= set(filter(None, names)):
        return set(known)
    reached: set[str] = set()
    while names:
        name = names.pop()
        if name in reached or not name:
            continue
        reached.add(name)
        names += [following(steps, name), known[name].get("on_failure", "")]
        if known[name]["pause_after"]:
            names += [
                known[name]["revise_to"],
                *(choice["to"] for choice in known[name]["choices"]),
            ]
    return reached


def _verdict(step: FrozenStep) -> Verdict:
    """A step with sub-steps is as bad as the worst of them: it may start them yet."""
    return min(
        (judge(step), *(_verdict(sub_step) for sub_step in step.get("sub_steps", []))),
        key=VERDICTS.index,
    )


class Jumping(NamedTuple):
    """Reviewed steps of a template whose code may lead elsewhere than to the next step: such a way
    is asked about like every other.
    """

    template: str
    steps: tuple[str, ...]
    under_way: int
    """Runs by this version of it."""


def jumping() -> list[Jumping]:
    """The templates that work is asked by now, or that runs are under way by, with reviewed steps
    that jump.
    """
    under_way = dict(
        _live().order_by().values_list("definition").annotate(Count("pk", distinct=True))
    )
    found = {
        str(definition): (definition.steps, under_way[digest])
        for digest, definition in Definition.objects.in_bulk(list(under_way)).items()
    }
    for slug in Template.objects.order_by("slug").values_list("slug", flat=True).distinct():
        template = Template.objects.filter(slug=slug).order_by("-version")[0]
        with suppress(TemplateInvalid):
            found.setdefault(str(template), (freeze_steps(template.steps), 0))
    lines = (
        Jumping(name, tuple(step["name"] for step in _reviewed_jumps(steps)), count)
        for name, (steps, count) in sorted(found.items())
    )
    return [line for line in lines if line.steps]


def _reviewed_jumps(steps: Sequence[FrozenStep]) -> Iterator[FrozenStep]:
    for step in steps:
        yield from _reviewed_jumps(step.get("sub_steps", []))
        if step["pause_after"]:
            with suppress(UnknownStep):
                function = find(step["function"], step.get("function_version", 1))
                if jumps(function):
                    yield step


def holds(step: FrozenStep) -> bool:
    """Whether runs wait for an operator before this step where its code has changed: what the
    frozen template says, else the server.
    """
    return bool((step.get("on_change") or settings.WAYSTATION_ON_CHANGE) == "hold")


def _waits(step: FrozenStep) -> bool:
    """Whether runs, or child runs, are held at the step because its code has changed."""
    return (holds(step) and judge(step) == "changed") or any(
        _waits(sub_step) for sub_step in step.get("sub_steps", [])
    )


class ChangedStep(NamedTuple):
    """A step whose code is missing, or not what the work was asked with."""

    title: str
    held: bool
    """Runs wait there until an operator accepts the changed code."""


def changed_ahead(pause: Pause) -> list[ChangedStep]:
    """The changed steps that an open question may lead to."""
    steps = pause.run.frozen.steps
    ahead = _ahead(steps, ("", codec.encode(pause.answers)))
    return [
        ChangedStep(step["title"], _waits(step))
        for step in steps
        if step["name"] in ahead and _verdict(step) in BAD
    ]


def held() -> QuerySet[Run]:
    """The runs that are held because of their code."""
    return Run.objects.filter(status=PENDING).exclude(held_because="")
