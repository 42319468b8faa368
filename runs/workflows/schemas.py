"""JSON Schemas that people and programs hand in: which are taken, and the one validator of what is
answered to them.

A schema comes from a template's author or from another system, so it is not trusted: validating
with it must be bounded. Therefore

- every `$ref` is local and is written out once when the schema is taken, within MAX_NODES (a `$ref`
  to itself, or a fan of references that doubles at each level, ends there);
- a validation counts what it looks at and ends at MAX_WORK (`_metered`);
- patterns are RE2's, which matches in linear time and has no back-references;
- keywords whose cost or meaning hangs on other documents or on annotations (`$id`, `$dynamicRef`,
  `unevaluated…`) are refused, and `patternProperties`.
"""

from __future__ import annotations

import copy
import datetime as dt
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from typing import Any

import re2
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import extend

from runs import limits
from runs.workflows import timing
from runs.workflows.refusals import config_fault, fault_of, in_json, library_message

MAX_BYTES = limits.SCHEMA_BYTES
MAX_DEPTH = limits.SCHEMA_DEPTH
MAX_NODES = limits.SCHEMA_PARTS
MAX_ANSWER = limits.ANSWER_BYTES
MAX_ITEMS = limits.UNIQUE_ITEMS
MAX_WORK = limits.VALIDATION_WORK
NOTES = frozenset({"title", "description", "default", "examples", "deprecated"})
"""Keywords that ask for nothing: beside a reference, they are said of this place alone."""
FAULTS = 100
"""What is said to be wrong with one answer, at most."""

NOT_JSON = (TypeError, ValueError, RecursionError)
REFUSED = {
    *(
        "$id",
        "$anchor",
        "$dynamicRef",
        "$dynamicAnchor",
        "$recursiveRef",
        "$recursiveAnchor",
        "$vocabulary",
    ),
    *("patternProperties", "unevaluatedProperties", "unevaluatedItems", "contentSchema"),
}
ONE = ("additionalProperties", "items", "contains", "propertyNames", "not", "if", "then", "else")
SEVERAL = ("allOf", "anyOf", "oneOf", "prefixItems")
NAMED = ("properties", "dependentSchemas")
ORDER = "x-order"
"""Annotation of an object in a schema: names of its properties in the order in which they are
shown. PostgreSQL's `jsonb` does not keep it, and neither does a program that sorts keys.
"""
ZONE = "x-zone"
"""Annotation of a `date-time`: the IANA zone in which forms take it and show it."""


class SchemaRefused(Exception):
    """A schema that cannot be taken; nothing was saved.

    `field` says where in it, as a dotted path.
    """

    code = "schema_refused"

    def __init__(self, field: str, words: str) -> None:
        super().__init__(f"{field}: {words}" if field else words)
        self.field = field
        self.words = words


def check(schema: Any) -> dict[str, Any]:
    """The schema as it is kept: references written out, and `$defs` gone. Raises SchemaRefused."""
    if not isinstance(schema, dict):
        raise SchemaRefused("", "A JSON Schema is an object.")
    try:
        plain, size = _plain(schema)
    except NOT_JSON as error:
        raise SchemaRefused("", f"The schema is no JSON: {error}") from error
    if size > MAX_BYTES:
        raise SchemaRefused("", f"The schema has {size} bytes; up to {MAX_BYTES} are taken.")
    kept: dict[str, Any] = _Writer(plain).written(plain, "", ())
    try:
        _check_sound(json.dumps(kept))
    except SchemaError as error:
        raise SchemaRefused(
            ".".join(str(part) for part in error.path), library_message(error)
        ) from error
    return kept


@lru_cache(maxsize=128)
def _check_sound(text: str) -> None:
    """Raise SchemaError for what is no schema. Each order looks at its template's anew, and the
    same text is as sound as it was.
    """
    Draft202012Validator.check_schema(json.loads(text))


def check_inputs(schema: Any) -> dict[str, Any]:
    """As `check`, of what is asked with a question: it joins a state, so it must describe an
    object.
    """
    kept = check(schema)
    if kept.get("type") != "object":
        raise SchemaRefused(
            "", 'What is asked for joins the state, so the schema must say "type": "object".'
        )
    return kept


def in_order(schema: Any, depth: int = 0) -> Any:
    """A schema that says in what order its names were declared, wherever a database would keep
    another: to be used before it is stored.
    """
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return schema

    def part(key: str, value: Any) -> Any:
        if key in ONE:
            return in_order(value, depth + 1)
        if key in SEVERAL and isinstance(value, list | tuple):
            return [in_order(item, depth + 1) for item in value]
        if key in {*NAMED, "$defs", "definitions"} and isinstance(value, Mapping):
            return {name: in_order(item, depth + 1) for name, item in value.items()}
        return value

    return {key: part(key, value) for key, value in _with_order(schema).items()}


def _with_order(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Canonical JSON sorts names, PostgreSQL's `jsonb` has shorter ones first."""
    names = (
        [str(name) for name in named]
        if isinstance(named := schema.get("properties"), Mapping)
        else []
    )
    stays = (
        names
        == sorted(names)
        == sorted(names, key=lambda name: (len(name.encode(errors="replace")), name))
    )
    return {**schema} if stays or ORDER in schema else {**schema, ORDER: names}


def declared(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of an object's schema, name → schema, in the order in which they were
    declared.
    """
    properties, order = schema.get("properties", {}), schema.get(ORDER)
    first = (
        [name for name in order if isinstance(name, str) and name in properties]
        if isinstance(order, list | tuple)
        else []
    )
    return {**{name: properties[name] for name in first}, **properties}


def for_others(schema: Any) -> Any:
    """Without ORDER and ZONE, for whoever knows the standard's words alone: a model's vendor may
    refuse others.
    """
    if isinstance(schema, Mapping):
        return {
            key: for_others(value)
            for key, value in schema.items()
            if not (key == ORDER and isinstance(value, list | tuple))
            and not (key == ZONE and isinstance(value, str))
        }
    return [for_others(item) for item in schema] if isinstance(schema, list | tuple) else schema


class _Writer:
    """Writes references out, and counts."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        self.nodes = 0

    def written(self, schema: Any, path: str, seen: tuple[str, ...], depth: int = 0) -> Any:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise SchemaRefused(
                path,
                f"The schema has more than {MAX_NODES} parts once its references are written out.",
            )
        if depth > MAX_DEPTH:
            raise SchemaRefused(path, f"Schemas may be nested {MAX_DEPTH} deep.")
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, Mapping):
            raise SchemaRefused(path, "Here must be a schema: an object, true or false.")
        if refused := sorted(REFUSED & schema.keys()):
            raise SchemaRefused(path, f"{refused[0]} is not supported.")
        own = {
            key: value
            for key, value in schema.items()
            if key not in {"$ref", "$defs", "definitions", "$schema", "$comment"}
        }
        if isinstance(own.get("properties"), Mapping):
            own["properties"] = declared(own)  # for whoever does not know ORDER
        kept = {
            key: self._part(key, value, _under(path, key), seen, depth)
            for key, value in _with_order(own).items()
        }
        if "$ref" not in schema:
            return kept
        there = self._referred(schema["$ref"], path, seen, depth)
        if kept.keys() & there.keys() <= NOTES:
            return there | kept
        return {"allOf": [there, kept]}

    def _part(self, key: str, value: Any, path: str, seen: tuple[str, ...], depth: int) -> Any:
        if key in ONE:
            return self.written(value, path, seen, depth + 1)
        if key in SEVERAL and isinstance(value, Sequence) and not isinstance(value, str):
            return [
                self.written(item, f"{path}.{place}", seen, depth + 1)
                for place, item in enumerate(value)
            ]
        if key in NAMED and isinstance(value, Mapping):
            return {
                name: self.written(item, f"{path}.{name}", seen, depth + 1)
                for name, item in value.items()
            }
        if key == "pattern":
            try:
                compiled(value)
            except (re2.error, TypeError) as error:
                message = (
                    f"{in_json(value)} is no pattern of RE2's syntax (no look-around, no "
                    "back-references)."
                )
                raise SchemaRefused(path, message) from error
        if key == ZONE:
            try:
                timing.zone_of(str(value))
            except ValueError as error:
                raise SchemaRefused(path, str(error)) from error
        return value

    def _referred(
        self, reference: Any, path: str, seen: tuple[str, ...], depth: int
    ) -> dict[str, Any]:
        if not isinstance(reference, str) or not reference.startswith("#/"):
            raise SchemaRefused(
                path,
                f"The reference {in_json(reference)} leads out of this schema; nothing is fetched.",
            )
        if reference in seen:
            raise SchemaRefused(path, f"The reference {in_json(reference)} leads back to itself.")
        value: Any = self.root
        for part in reference[2:].split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(value, Mapping) or name not in value:
                raise SchemaRefused(
                    path, f"The reference {in_json(reference)} leads nowhere inside this schema."
                )
            value = value[name]
        there = self.written(value, path, (*seen, reference), depth)
        return there if isinstance(there, dict) else {"allOf": [there]}


def _under(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20  # bytes; a bigger automaton is refused
    # the library has no annotations
    return re2.compile(pattern, options)  # type: ignore[no-untyped-call]


class TooMuchWork(Exception):
    """A validation has come to MAX_WORK steps and was ended."""


_left: ContextVar[int] = ContextVar("left", default=MAX_WORK)
"""Steps that the validation under way has left."""
EACH = {"items", "contains", "additionalProperties", "propertyNames"}
"""Keywords that look at each value of a list or an object, whatever they ask of it."""
READING = {"pattern", "format"}
"""Keywords that read a text from end to end."""


def _spend(steps: int) -> None:
    """Raises TooMuchWork."""
    left = _left.get() - steps
    if left < 0:
        raise TooMuchWork
    _left.set(left)


def _metered(keyword: str, inner: Callable[..., Any]) -> Callable[..., Iterator[ValidationError]]:
    """The keyword's check, counted: a step for each look, for each part of what is asked, and for
    each hundred characters read or said. A fault's message repeats the value, so a large value that
    fits none of many alternatives would cost most of all.
    """

    def check_and_count(
        validator: Any, asked: Any, value: Any, schema: Any
    ) -> Iterator[ValidationError]:
        steps = 1 + (len(asked) if isinstance(asked, list | dict) else 0)
        if keyword in EACH and isinstance(value, list | dict):
            steps += len(value)
        if keyword in READING and isinstance(value, str):
            steps += len(value) // 100
        _spend(steps)
        for fault in inner(validator, asked, value, schema) or ():
            _spend(len(fault.message) // 100)
            yield fault

    return check_and_count


def _pattern(validator: Any, pattern: str, value: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(value, str) and not compiled(pattern).search(value):
        yield ValidationError(f"{in_json(value)} does not match {in_json(pattern, 200)}")


def _multiple_of(validator: Any, of: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    """Exact, and for numbers of any size: the library divides floats, which fails from 400 digits
    on.
    """
    if validator.is_type(value, "number") and Fraction(str(value)) % Fraction(str(of)):
        yield ValidationError(f"must be a multiple of {str(of)[:40]}")


def _unique_items(validator: Any, asked: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    """By the items' text, since the library compares each with each."""
    if not asked or not isinstance(value, list):
        return
    if len(value) > MAX_ITEMS:
        yield ValidationError(f"has {len(value)} items; up to {MAX_ITEMS} can be compared")
        return
    seen: set[str] = set()
    for item in value:
        text = json.dumps(_as_numbers(item), sort_keys=True)
        _spend(1 + len(text) // 10)
        if text in seen:
            yield ValidationError("has an item twice")
            return
        seen.add(text)


def _as_numbers(value: Any) -> Any:
    """As JSON Schema compares: 1 and 1.0 are the same number."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _as_numbers(item) for key, item in value.items()}
    return [_as_numbers(item) for item in value] if isinstance(value, list) else value


def _contains(validator: Any, asked: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    """The library's, behind a limit: it tries a schema on each item."""
    if isinstance(value, list) and len(value) > MAX_ITEMS:
        yield ValidationError(f"has {len(value)} items; up to {MAX_ITEMS} can be compared")
    else:
        yield from (
            Draft202012Validator.VALIDATORS["contains"](validator, asked, value, schema) or ()
        )


FORMATS = FormatChecker(formats=())
"""Formats that are checked; others are notes for people, as the standard has it."""


def _parsed(name: str, read: Callable[[str], object]) -> None:
    def known(value: object) -> bool:
        if isinstance(value, str):
            read(value)
        return True

    FORMATS.checks(name, raises=ValueError)(known)


def _moment(value: str) -> None:
    if dt.datetime.fromisoformat(value).tzinfo is None:
        raise ValueError("a date-time names its zone")


def _email(value: str) -> None:
    name, at, host = value.rpartition("@")
    if not (name and at and host) or any(sign.isspace() for sign in value):
        raise ValueError("no address")


_parsed("date", dt.date.fromisoformat)
_parsed("time", dt.time.fromisoformat)
_parsed("date-time", _moment)
_parsed("email", _email)

OURS = {
    "pattern": _pattern,
    "multipleOf": _multiple_of,
    "uniqueItems": _unique_items,
    "contains": _contains,
}
Checker = extend(  # type: ignore[no-untyped-call]  # the library has no annotation here
    Draft202012Validator,
    {
        name: _metered(name, check)
        for name, check in {**Draft202012Validator.VALIDATORS, **OURS}.items()
    },
)


def validate_resume_payload(
    required_inputs: Mapping[str, Any], payload: Any, *, longest: int = MAX_ANSWER
) -> dict[str, list[str]]:
    """What is wrong with an answer: dotted path → sentences; empty where nothing is.

    The one validator, behind every door.

    Args:
        required_inputs: a schema as `check` gave it.
        payload: what was answered.
        longest: bytes that its text may have.
    """
    try:
        plain, size = _plain(payload)
    except NOT_JSON as error:
        return {"": [f"The answer is no JSON: {error}"]}
    if size > longest:
        return {"": [f"The answer has {size} bytes; up to {longest} are taken."]}
    try:
        errors = _faults(required_inputs, plain)
    except TooMuchWork:
        return {"": ["The answer holds more values than can be checked against what is asked for."]}
    return dict(sorted(errors.items()))


def fits(schema: Mapping[str, Any], value: Any) -> bool:
    """Whether a value of JSON fits a schema as `check` gave it.

    One whose check comes to too much work does not.
    """
    try:
        return not _faults(schema, value)
    except TooMuchWork:
        return False


def _faults(schema: Mapping[str, Any], plain: Any) -> dict[str, list[str]]:
    """Dotted path → sentences, of the first FAULTS faults. Raises TooMuchWork."""
    errors: dict[str, list[str]] = {}
    token = _left.set(MAX_WORK)
    try:
        for fault in islice(
            _causes(Checker(schema, format_checker=FORMATS).iter_errors(plain)), FAULTS
        ):
            path, text = fault_of(fault)
            if text not in errors.setdefault(path, []):
                errors[path].append(text)
    finally:
        _left.reset(token)
    return errors


def config_faults(schema: Mapping[str, Any], config: Any) -> dict[str, list[str]]:
    """Say what is wrong with a configuration, whose schema is our own: dotted path → sentences.

    A key that the schema does not know is told with those that come close.
    """
    errors: dict[str, list[str]] = {}
    plain = dict(config) if isinstance(config, Mapping) else config
    for fault in islice(Draft202012Validator(schema).iter_errors(plain), FAULTS):
        place, text = config_fault(fault)
        errors.setdefault(place, []).append(text)
    return errors


def with_defaults(schema: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
    """An object that fits a schema as `check` gave it, with the `default`s of the properties that
    it leaves out, also inside; as it was where it would not fit with them.

    The schema's own properties count, and none that only an alternative names.
    """
    filled = _filled(schema, value)
    return filled if filled == value or fits(schema, filled) else dict(value)


def _filled(schema: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(value)
    for name, part in schema.get("properties", {}).items():
        if not isinstance(part, Mapping):
            continue
        if name not in found and "default" in part:
            found[name] = copy.deepcopy(part["default"])
        if isinstance(found.get(name), Mapping):
            found[name] = _filled(part, found[name])
    return found


def answer_faults(required_inputs: Mapping[str, Any], payload: Any) -> dict[str, list[str]]:
    """As `validate_resume_payload`, of data that join a state: only what is asked for by name is
    taken, however open the schema is.
    """
    errors = validate_resume_payload(required_inputs, payload)
    more = (
        sorted(payload.keys() - asked_for(required_inputs))[:FAULTS]
        if isinstance(payload, Mapping)
        else []
    )
    return {
        **errors,
        **{str(name)[:200]: ["This was not asked for. Leave it out."] for name in more},
    }


def asked_for(schema: Any) -> set[str]:
    """The keys that a schema of an object asks for by name: itself, or one of its alternatives."""
    if not isinstance(schema, Mapping):
        return set()
    found = {*schema.get("properties", {}), *schema.get("required", [])}
    found |= {name for names in schema.get("dependentRequired", {}).values() for name in names}
    inner = [
        *(schema.get(key) for key in ("if", "then", "else")),
        *schema.get("dependentSchemas", {}).values(),
    ]
    for key in ("allOf", "anyOf", "oneOf"):
        inner += schema.get(key, [])
    return found.union(*(asked_for(part) for part in inner))


def _plain(value: Any) -> tuple[Any, int]:
    """A JSON value of plain dicts and lists, and the bytes of its text; raises NOT_JSON."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    return json.loads(text), len(text.encode())


def _causes(errors: Iterable[ValidationError]) -> Iterator[ValidationError]:
    """The errors worth telling: of alternatives that all failed, those of the one that the answer
    is nearest to.
    """
    for error in errors:
        if error.validator in {"anyOf", "oneOf"} and error.context:
            branches: dict[Any, list[ValidationError]] = {}
            for inner in error.context:
                branches.setdefault(inner.schema_path[0], []).append(inner)
            nearest = max(
                branches.values(),
                key=lambda inner: max(len(cause.absolute_path) for cause in inner),
            )
            if max(len(cause.absolute_path) for cause in nearest) > len(error.absolute_path):
                yield from _causes(nearest)
                continue
        yield error
