"""Runs under way against the code that is here now: would their next steps still do what was asked for? (P10)"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from django.db.models import Count, Q

from checkpoints import ids
from runs import workflows as workflows  # registers the step functions
from runs.models import Definition, Run
from runs.states import LIVE
from runs.workflows.base import UnknownStep, find
from runs.workflows.fingerprint import fingerprint
from runs.workflows.sequence import FrozenStep, following

SHOWN = 10

Verdict = Literal["missing", "changed", "unknown", "compatible"]
VERDICTS: tuple[Verdict, ...] = ("missing", "changed", "unknown", "compatible")
"""Worst first. `missing`: the code has no such step function; `unknown`: frozen before fingerprints were."""
BAD: frozenset[Verdict] = frozenset({"missing", "changed"})


@dataclass(frozen=True)
class Found:
    """The live runs of one definition that have one verdict."""

    definition: str
    """Its digest."""
    template: str
    verdict: Verdict
    steps: tuple[str, ...]
    """The steps at or ahead of these runs that the verdict is about, in their order; none where all is well."""
    count: int
    runs: tuple[str, ...]
    """Shown ids of the oldest of them, up to SHOWN."""


def report() -> list[Found]:
    """All live runs, by definition and verdict: one query over the runs, then one for each line that is reported.

    A step that jumps (`Go(to=…)`) may lead back to one that was judged to be behind.
    """
    live = Run.objects.filter(status__in=sorted(LIVE))
    places: dict[str, dict[tuple[str, str], int]] = {}
    grouped = live.values_list("definition", "thread__head__next_step", "thread__head__node_id").annotate(count=Count("pk")).order_by()
    for digest, next_step, node_id, count in grouped:
        places.setdefault(digest, {})[next_step or "", node_id or ""] = count
    definitions = Definition.objects.in_bulk(list(places))
    return [found for digest in sorted(places) for found in _judge(definitions[digest], places[digest])]


def _judge(definition: Definition, places: dict[tuple[str, str], int]) -> Iterator[Found]:
    steps = definition.steps
    verdicts = {step["name"]: _verdict(step) for step in steps}
    there: dict[Verdict, list[tuple[str, str]]] = {}
    for place in places:
        worst = min((verdicts[name] for name in _ahead(steps, place[0] or place[1])), key=VERDICTS.index)
        there.setdefault(worst, []).append(place)
    for verdict in VERDICTS:
        if verdict not in there:
            continue
        at = there[verdict]
        ahead = {name for place in at for name in _ahead(steps, place[0] or place[1])} if verdict != "compatible" else set()
        yield Found(
            definition=definition.digest,
            template=str(definition),
            verdict=verdict,
            steps=tuple(step["name"] for step in steps if step["name"] in ahead and verdicts[step["name"]] == verdict),
            count=sum(places[place] for place in at),
            runs=tuple(ids.show(Run.PREFIX, run) for run in _runs(definition, at)),
        )


def _runs(definition: Definition, places: Sequence[tuple[str, str]]) -> list[uuid.UUID]:
    here = Q(pk__in=[])
    for next_step, node_id in places:
        here |= Q(thread__head__next_step=next_step, thread__head__node_id=node_id)
    live = Run.objects.filter(here, definition=definition, status__in=sorted(LIVE))
    return list(live.order_by("pk").values_list("pk", flat=True)[:SHOWN])


def _ahead(steps: Sequence[FrozenStep], name: str) -> set[str]:
    """The step `name` and those that may follow it, by the template's order and by answers; all where `name` is none of them."""
    known = {step["name"]: step for step in steps}
    if name not in known:
        return set(known)
    reached: set[str] = set()
    names = [name]
    while names:
        name = names.pop()
        if name in reached or name not in known:
            continue
        reached.add(name)
        names.append(following(steps, name))
        if known[name]["pause_after"]:
            names += [known[name]["revise_to"], *(choice["to"] for choice in known[name]["choices"])]
    return reached


def _verdict(step: FrozenStep) -> Verdict:
    try:
        now = fingerprint(find(step["function"]))
    except UnknownStep:
        return "missing"
    frozen = step.get("fingerprint", "")
    if not frozen or not now:
        return "unknown"
    return "compatible" if frozen == now else "changed"
