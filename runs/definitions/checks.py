"""What a template may not say, found when it is saved."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from django.contrib.auth.models import Group

from checkpoints.database.people import NAME, User
from checkpoints.state import codec, redaction
from runs.definitions.errors import TemplateInvalid, refused
from runs.models.frequency import needs_checkpoints
from runs.workflows import refusals, schemas
from runs.workflows.registry import asks_by_itself
from runs.workflows.sequence import FrozenStep


def check_people(steps: Sequence[Mapping[str, Any]], field: str) -> None:
    """Raise TemplateInvalid where the rules of a step name somebody who is not there: nobody would
    be asked in that name.
    """
    named: dict[str, dict[str, list[str]]] = {"users": {}, "groups": {}}
    for position, step in enumerate(steps):
        review = step.get("review") or {}
        places = [("reviewers", review.get("reviewers", {}))]
        places += [
            (f"escalation.{number}", stage)
            for number, stage in enumerate(review.get("escalation", []))
        ]
        places += [
            (f"stages.{number}.reviewers", stage.get("reviewers", {}))
            for number, stage in enumerate(review.get("stages", []))
        ]
        for place, actors in places:
            for kind, places_of in named.items():
                for name in actors.get(kind, []):
                    places_of.setdefault(name, []).append(
                        f"{field}.{position}.review.{place}.{kind}"
                    )
    errors: dict[str, list[str]] = {}
    for kind, noun, known in (
        (
            "users",
            "person with an active account",
            User.objects.filter(is_active=True).values_list(NAME, flat=True),
        ),
        ("groups", "group", Group.objects.values_list("name", flat=True)),
    ):
        names = set(named[kind])
        there = (
            set(known.filter(**{f"{NAME}__in" if kind == "users" else "name__in": names}))
            if names
            else names
        )
        for name in sorted(names - there):
            for place in named[kind][name]:
                errors.setdefault(place, []).append(
                    refusals.unknown(noun, name, known.order_by("pk")[:1_000])
                )
    if errors:
        raise TemplateInvalid(errors)


def check_keys(given: Iterable[str], known: Collection[str]) -> None:
    """Raise TemplateInvalid for keys of a document that nobody would read."""
    if errors := {
        str(name)[:100]: [refusals.unknown("key", str(name), known)]
        for name in given
        if name not in known
    }:
        raise TemplateInvalid(errors)


def check_texts(slug: str, fields: Mapping[str, Any]) -> None:
    """Raise TemplateInvalid for what the columns cannot hold."""
    if len(slug) > 80:
        raise refused("slug", "Up to 80 characters.")
    for name, value in fields.items():
        try:
            codec.check(value, name)
        except codec.NotJson as error:
            raise refused(name, str(error)) from error
        if codec.holds_unreadable(value):
            raise refused(
                name,
                f"{name} holds characters that cannot be kept: a NUL, or bytes that are no UTF-8.",
            )


def fields_of(schema: Any) -> Iterator[str]:
    """Give the names of all fields that a schema asks for, at any depth, save those that are only
    true or false.
    """
    if isinstance(schema, dict):
        for name, inner in _object(schema.get("properties")).items():
            if not (isinstance(inner, dict) and inner.get("type") == "boolean"):
                yield name
        yield from (
            name
            for name in _list(schema.get("required"))
            if name not in _object(schema.get("properties"))
        )
    parts = list(schema.values()) if isinstance(schema, dict) else _list(schema)
    for part in parts:
        yield from fields_of(part)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def check_no_secrets(schema: Any, field: str) -> None:
    """Raise TemplateInvalid where a form would ask for what is not kept: no step would ever get
    it.
    """
    asked = sorted(
        {name for name in fields_of(schema) if isinstance(name, str) and redaction.is_secret(name)}
    )
    if asked:
        message = (
            f"{', '.join(map(repr, asked))}: named like a secret. What is given under such a "
            "name is not kept, so no step would get it."
        )
        raise refused(
            field, f"{message} Let the step read it from its environment, or choose another name."
        )


def check_off(steps: Sequence[FrozenStep], *, needs_repository: bool) -> None:
    """Raise TemplateInvalid where a template without checkpoints would promise what only they can
    keep.
    """
    reasons = [
        (step["name"], needs_checkpoints(step, asks=asks_by_itself(step["function"])))
        for step in steps
    ]
    errors = [
        f"The step {refusals.in_json(name)} {reason}, which takes checkpoints."
        for name, reason in reasons
        if reason
    ]
    errors += [
        f"The step {refusals.in_json(step['name'])} follows an end with the state as it was, "
        "which takes checkpoints."
        for step in steps
        if step.get("only_on")
    ]
    if needs_repository:
        errors.append(
            "Work on a repository takes checkpoints: each commit is found by them. Set "
            "needs_repository to false."
        )
    if errors:
        raise TemplateInvalid({"frequency": errors})


def check_schema(schema: Any, field: str) -> None:
    try:
        schemas.check(schema)
    except schemas.SchemaRefused as error:
        raise refused(field, f"No JSON Schema that can be used: {error}") from error
    check_no_secrets(schema, field)
