"""The one validator of what people and programs send as an answer: JSON Schema 2020-12 (S3-48)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable

from checkpoints import codec
from runs.workflows.base import StepFailed

WHOLE = "payload"
"""How the payload as a whole is called among the errors."""


def validator(schema: Mapping[str, Any]) -> Draft202012Validator:
    """A validator of input and answers. Its registry is empty: a `$ref` never fetches anything."""
    return Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER, registry=Registry())


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raise StepFailed where a step asks for inputs in a way that nobody could answer."""
    if not schema:
        return
    try:
        Draft202012Validator.check_schema(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    except SchemaError as error:
        raise StepFailed(f"The step asks for inputs, but its schema is none: {error.message[:300]}", code="bad_required_inputs") from error


def validate_resume_payload(required_inputs: Mapping[str, Any], payload: Any) -> dict[str, list[str]]:
    """What is wrong with an answer, by field (`a.b` for a part of an object); empty where it is right (S3-37).

    What is missing is told at the field that is missing, so that a form can show it there.
    """
    try:
        codec.check(payload, WHOLE)
    except codec.NotJson as error:
        return {WHOLE: [str(error)]}
    if codec.holds_unreadable(payload):
        return {WHOLE: ["It holds characters that cannot be kept: a NUL, or bytes that are no UTF-8."]}
    errors: dict[str, list[str]] = {}
    try:
        for found in validator(required_inputs).iter_errors(payload):
            for field, text in _told(found):
                errors.setdefault(field, []).append(text)
    except (Unresolvable, RecursionError) as error:
        return {WHOLE: [f"What is asked for cannot be checked: {error}"[:300]]}
    return errors


def _told(found: ValidationError) -> list[tuple[str, str]]:
    path = [str(part) for part in found.absolute_path]
    field = ".".join(path) or WHOLE
    match found.validator:
        case "required" if isinstance(found.validator_value, list):
            named = [name for name in found.validator_value if found.message.startswith(f"{name!r} ")]  # one error for each that is missing
            return [(".".join([*path, str(name)]), "This is needed.") for name in named]
        case "const" if found.validator_value is True:
            return [(field, "Confirm this, or choose another answer.")]
        case "enum" | "oneOf" | "const":
            return [(field, "Choose one of the options.")]
        case "minLength":
            return [(field, "This is needed.")]
        case "pattern" | "format":
            shape = found.schema.get("description") if isinstance(found.schema, Mapping) else None
            return [(field, f"{str(found.instance)[:60]!r} does not have the form that is asked for{f': {shape}' if shape else '.'}")]
    return [(field, found.message[:300])]
