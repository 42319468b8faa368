"""Stages of a review: several questions about one content, each put to people of its own, at the
same time or one after another. Pure.

A stage has begun once all stages that it comes `after` are complete, and is complete when as many
people have approved as it asks for. The question is decided when all stages are complete. Where the
rules name no stages there is one, without a name: the whole review.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, Literal

from runs.workflows.refusals import FieldRefused, in_json, unknown
from runs.workflows.reviews.review import Review, ReviewStage
from runs.workflows.schemas import ORDER, declared

NAME = r"^[a-z][a-z0-9_-]{0,39}$"
MOST = 10

Status = Literal["waiting", "open", "complete"]


def of(review: Review | Mapping[str, Any]) -> list[ReviewStage]:
    """The stages that the rules name, in their order; [] where they name none."""
    stages: list[ReviewStage] = review.get("stages", [])
    return stages


def quorum(review: Review | Mapping[str, Any]) -> int:
    """How many approvals the question needs, of all stages together."""
    if stages := of(review):
        return sum(stage.get("quorum", 1) for stage in stages)
    return int(review.get("quorum", 1))


def titled(stage: ReviewStage) -> str:
    return stage.get("title") or stage["name"].replace("_", " ").replace("-", " ").capitalize()


def statuses(review: Review | Mapping[str, Any], votes: Iterable[str]) -> dict[str, Status]:
    """How each stage stands after these votes, which are names of stages."""
    counts = Counter(votes)
    complete = {
        stage["name"] for stage in of(review) if counts[stage["name"]] >= stage.get("quorum", 1)
    }
    return {
        stage["name"]: "complete"
        if stage["name"] in complete
        else "open"
        if complete.issuperset(stage.get("after", []))
        else "waiting"
        for stage in of(review)
    }


def kept_to(review: Review | Mapping[str, Any], votes: Iterable[str]) -> bool:
    """Whether these votes complete each stage, and none of them is one too many."""
    return Counter(votes) == {stage["name"]: stage.get("quorum", 1) for stage in of(review)}


def bits(review: Review | Mapping[str, Any], names: Collection[str]) -> int:
    """These stages as a number, for a column that a query compares; 0 where there are none."""
    return sum(1 << place for place, stage in enumerate(of(review)) if stage["name"] in names)


def turn(review: Review | Mapping[str, Any], votes: Iterable[str] = ()) -> int:
    """The stages that are open after these votes, as `bits`."""
    named = statuses(review, votes)
    return bits(review, {name for name, status in named.items() if status == "open"})


def within(review: Review | Mapping[str, Any], number: int) -> list[ReviewStage]:
    """The stages of a number that `bits` gave."""
    return [stage for place, stage in enumerate(of(review)) if number & (1 << place)]


def inputs(required_inputs: Mapping[str, Any], stage: str) -> dict[str, Any]:
    """What one stage brings of the data that the question asks for: the property of its name; {}
    where there is none.
    """
    asked = declared(required_inputs).get(stage)
    if asked is None:
        return {}
    wanted = [name for name in required_inputs.get("required", []) if name == stage]
    return {"type": "object", "properties": {stage: asked}, "required": wanted}


_PLAIN = ("type", "title", "description", "additionalProperties", ORDER)


def check_inputs(required_inputs: Mapping[str, Any], review: Review | Mapping[str, Any]) -> None:
    """Raise FieldRefused where a stage could not bring its part of the data by itself.

    `required_inputs` is a schema as `schemas.check_inputs` gave it.
    """
    names = [stage["name"] for stage in of(review)]
    if not names or not required_inputs:
        return
    for name in [*declared(required_inputs), *required_inputs.get("required", [])]:
        if name not in names:
            raise FieldRefused(
                f"properties.{name}",
                f"{unknown('stage', name, names)} With stages, each brings the property of its "
                "own name.",
            )
    for key in required_inputs:
        if key not in {"properties", "required", *_PLAIN}:
            raise FieldRefused(key, f"With stages, {key} stands within the property of a stage.")


def check(review: Review) -> None:
    """Raise FieldRefused, with the field within `review`, where stages can never be complete."""
    stages = of(review)
    if not stages:
        return
    for field in ("reviewers", "quorum", "external"):
        if field in review:
            raise FieldRefused(field, f"Each stage names its own {field}: leave this out.")
    names = [stage["name"] for stage in stages]
    for place, stage in enumerate(stages):
        if names.index(stage["name"]) < place:
            raise FieldRefused(f"stages.{place}.name", f"{in_json(stage['name'])} is there twice.")
        if not any(stage.get("reviewers", {}).values()) and not stage.get("external"):
            raise FieldRefused(f"stages.{place}.reviewers", "Name a person or a group.")
        for number, before in enumerate(stage.get("after", [])):
            if before not in names:
                raise FieldRefused(
                    f"stages.{place}.after.{number}", unknown("stage", before, names)
                )
    _check_order(stages)
    _check_enough(stages)


def _check_order(stages: Sequence[ReviewStage]) -> None:
    left = {stage["name"]: set(stage.get("after", [])) for stage in stages}
    while begun := [name for name, before in left.items() if not before & left.keys()]:
        for name in begun:
            del left[name]
    if left:
        circle = ", ".join(left)
        place = next(place for place, stage in enumerate(stages) if stage["name"] in left)
        raise FieldRefused(
            f"stages.{place}.after", f"{circle} wait for one another, so none ever begins."
        )


def _check_enough(stages: Sequence[ReviewStage]) -> None:
    """One person approves at one stage: wherever stages name people alone, these are as many as
    they ask for together.
    """
    named = [stage for stage in stages if not stage.get("reviewers", {}).get("groups")]
    for size in range(1, len(named) + 1):
        for some in combinations(named, size):
            people = {name for stage in some for name in _people(stage)}
            wanted = sum(stage.get("quorum", 1) for stage in some)
            if len(people) < wanted:
                which = " and ".join(stage["name"] for stage in some)
                raise FieldRefused(
                    f"stages.{stages.index(some[-1])}.reviewers",
                    f"{which} ask for {wanted} different people, and name {len(people)}. One "
                    "person approves at one stage.",
                )


def _people(stage: ReviewStage) -> set[str]:
    return {*stage.get("reviewers", {}).get("users", []), *stage.get("external", [])}
