"""Values of a workflow as types of its author: pydantic models, dataclasses and TypedDicts become
JSON Schemas, and JSON becomes their instances again.

This is the only module that knows pydantic. All other code sees JSON Schemas.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import logging
import operator
import typing
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from decimal import Decimal
from functools import cache, partial, reduce
from typing import Any, TypeVar, get_args, get_origin

import typing_extensions
from pydantic import BaseModel, PydanticUserError, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from runs.workflows import attachments, schemas
from runs.workflows.base.outcomes import StepFailed
from runs.workflows.schemas import SchemaRefused

T = TypeVar("T")
Shape = type[Any] | Mapping[str, Any]
"""What values look like: a pydantic model, a dataclass, a TypedDict, or a JSON Schema."""
SHOWN = 5
"""Fields that a refusal names."""
MOST = 100
"""Faults of one answer that are told."""
logger = logging.getLogger(__name__)


def schema_of(shape: Shape) -> dict[str, Any]:
    """Give the JSON Schema of a type, or check one that was written by hand.

    What no form and no document can hold is refused, and so is what is no object.

    Raises:
        schemas.SchemaRefused: naming the field.
    """
    kind: Any = shape
    return deepcopy(_document(kind)) if isinstance(kind, type) else schemas.check_inputs(kind)


def read(shape: type[T], values: Mapping[str, Any]) -> T:
    """Give the part of `values` that the type asks for, as an instance of it.

    `values` is an order's input or a state: keys that the type does not name are passed over.

    Raises:
        StepFailed: `not_as_declared`, naming the fields that do not fit.
    """
    try:
        value: T = _instance(shape, values)
    except ValidationError as error:
        problems = "; ".join(
            f"{place or shape.__name__}: {text}" for place, text in _said(error)[:SHOWN]
        )
        raise StepFailed(
            f"The values do not fit {shape.__name__}: {problems}.", code="not_as_declared"
        ) from None  # pydantic's own message quotes the values
    return value


def faults(shape: type[Any], values: Mapping[str, Any]) -> dict[str, list[str]]:
    """Tell what a type's own validators say of values that fit its JSON Schema: dotted path →
    sentences; empty where nothing is wrong.

    They are an author's code. One that breaks is a fault too, told without its message, which may
    hold anything.
    """
    return _told(shape, lambda: _instance(shape, values))


def faults_of_parts(shape: type[Any], values: Mapping[str, Any]) -> dict[str, list[str]]:
    """The same of each value by the type of its own field alone: what the validators of `shape`
    itself say needs all of them.
    """
    found: dict[str, list[str]] = {}
    for name, annotation in _annotated(shape):
        if name in values:
            adapter = TypeAdapter(_readable(annotation))
            told = _told(shape, partial(adapter.validate_json, json.dumps(values[name])))
            found |= {f"{name}.{place}".rstrip("."): texts for place, texts in told.items()}
    return found


def _annotated(shape: type[Any]) -> Iterator[tuple[str, Any]]:
    """The fields of a type by their names in JSON, with the validators that stand in their
    annotations.
    """
    if not issubclass(shape, BaseModel):
        yield from _fields(shape)
        return
    for name, field in shape.model_fields.items():
        alias = field.validation_alias
        yield alias if isinstance(alias, str) else name, field.rebuild_annotation()


def _told(shape: type[Any], check: Callable[[], Any]) -> dict[str, list[str]]:
    """What a check of values says, as `faults`."""
    try:
        check()
    except ValidationError as error:
        found: dict[str, list[str]] = {}
        for place, text in _said(error)[:MOST]:
            text = text.removeprefix("Value error, ").removeprefix("Assertion failed, ")
            found.setdefault(place, []).append(f"{text[:1].upper()}{text[1:]}.")
        return found
    except KeyboardInterrupt:
        raise
    # whatever an author's validator raises: `sys.exit()` would end a web server
    except BaseException as error:  # noqa: BLE001
        logger.warning("a validator of %s failed: %s", shape.__name__, type(error).__name__)
        broken = f"The check of {shape.__name__} broke with {type(error).__name__}"
        return {"": [f"{broken}, so nothing could be checked. Its author can mend it."]}
    return {}


def has_validators(shape: type[Any]) -> bool:
    """Whether a type is one whose author may have written validators, and a form can ask for it."""
    if not issubclass(shape, BaseModel) and not hasattr(shape, "__pydantic_validator__"):
        return False
    kind: Any = shape
    try:
        return bool(_document(kind))
    except SchemaRefused:
        return False


def _instance(shape: type[T], values: Mapping[str, Any]) -> T:
    kind: Any = shape
    given = {name: values[name] for name in schemas.declared(_document(kind)) if name in values}
    # as JSON: a model that is strict takes a date's text only from there
    value: T = _adapter(kind).validate_json(json.dumps(given))
    return value


def _said(error: ValidationError) -> list[tuple[str, str]]:
    """Dotted path and words of each fault; pydantic's own message quotes the values."""
    each = error.errors(include_url=False, include_input=False, include_context=False)
    return [
        (
            ".".join(str(part) for part in fault["loc"]),
            fault["msg"][:300],
        )
        for fault in each
    ]


@cache
def _document(shape: Any) -> dict[str, Any]:
    try:
        made = _adapter(shape).json_schema(schema_generator=_Generator)
    except SchemaRefused as error:
        raise SchemaRefused(error.field or _culprit(shape), error.words) from error
    except PydanticUserError as error:
        reason = str(error).split("\n")[0]
        raise SchemaRefused(_culprit(shape), f"{reason}: no form can ask for it.") from error
    try:
        return schemas.check_inputs(_without_nulls(schemas.check(made)))
    except SchemaRefused as error:
        names = [part for part in error.field.split(".") if part not in {"", "properties"}]
        raise SchemaRefused(".".join(names), error.words) from error


@cache
def _adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(_readable(shape))


def _culprit(shape: type[Any]) -> str:
    """The first field of a type that has no JSON Schema by itself; "" where none can be told."""
    for name, annotation in _fields(shape):
        try:
            TypeAdapter(_readable(annotation)).json_schema(schema_generator=_Generator)
        except (SchemaRefused, PydanticUserError):
            return name
    return ""


def _fields(shape: type[Any]) -> Iterator[tuple[str, Any]]:
    if issubclass(shape, BaseModel):
        yield from ((name, field.annotation) for name, field in shape.model_fields.items())
    elif dataclasses.is_dataclass(shape) or typing_extensions.is_typeddict(shape):
        yield from typing.get_type_hints(shape, include_extras=True).items()


def _readable(annotation: Any) -> Any:
    """The same type, with the standard library's TypedDicts, which pydantic takes only from Python
    3.12 on, as those of typing_extensions.
    """
    if isinstance(annotation, type) and type(annotation).__module__ == "typing":
        hints = typing.get_type_hints(annotation, include_extras=True)
        usual: frozenset[str] = getattr(annotation, "__required_keys__", frozenset())
        fields = {name: _marked(hint, required=name in usual) for name, hint in hints.items()}
        make: Any = typing_extensions.TypedDict  # its stubs take names in quotes only
        made = make(annotation.__name__, fields)
        made.__doc__ = annotation.__doc__
        return made
    arguments = get_args(annotation)
    if not arguments or get_origin(annotation) is typing.Literal:
        return annotation
    inner = tuple(_readable(argument) for argument in arguments)
    if inner == arguments:
        return annotation
    if get_origin(annotation) is typing.Annotated:
        return typing.Annotated[(inner[0], *arguments[1:])]
    if isinstance(annotation, type(int | str)):
        return reduce(operator.or_, inner)
    return (
        annotation.copy_with(inner)
        if hasattr(annotation, "copy_with")
        else (get_origin(annotation)[inner])
    )


def _marked(hint: Any, *, required: bool) -> Any:
    """A field with its Required or NotRequired; the class itself does not see those that stand in
    annotations which are texts.
    """
    origin = get_origin(hint)
    if origin in {typing.Required, typing.NotRequired}:
        return origin[_readable(get_args(hint)[0])]
    return (typing.Required if required else typing.NotRequired)[_readable(hint)]


class _Generator(GenerateJsonSchema):
    """JSON Schemas as forms want them."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Forms make a label of the field's name; a title is one that the author wrote."""
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return _untitled(super().model_schema(schema), schema["cls"])

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        if schema["cls"] is attachments.File:
            return attachments.schema_of(path=False)
        return _untitled(super().dataclass_schema(schema), schema["cls"])

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        return _untitled(super().typed_dict_schema(schema), schema.get("cls"))

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        """As its own, which puts name and docstring of an Enum in when all else is done."""
        made = super().generate_inner(schema)
        if schema["type"] == "enum":
            _untitled(self.resolve_ref_schema(made), schema["cls"])
        return made

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        """A number: pydantic's own pattern for text needs look-ahead, which RE2 has not."""
        made: JsonSchemaValue = {"type": "number"}
        for ours, theirs in (
            ("minimum", "ge"),
            ("maximum", "le"),
            ("exclusiveMinimum", "gt"),
            ("exclusiveMaximum", "lt"),
            ("multipleOf", "multiple_of"),
        ):
            if (bound := schema.get(theirs)) is not None:
                made[ours] = float(bound)  # type: ignore[arg-type]
        places = schema.get("decimal_places")
        if places is not None and "multipleOf" not in made:
            made["multipleOf"] = float(f"1e-{places}") if places else 1
        return made

    def encode_default(self, dft: Any) -> Any:
        """A default amount is a number, as its field is."""
        return float(dft) if isinstance(dft, Decimal) else super().encode_default(dft)


def _untitled(made: JsonSchemaValue, of: type[Any] | None) -> JsonSchemaValue:
    """Without the name of a class, which is no label, and its docstring, which is no page's text:
    it speaks to those who read the code.
    """
    if of is None:
        return made
    if made.get("title") == of.__name__:
        del made["title"]
    if of.__doc__ and made.get("description") == inspect.cleandoc(of.__doc__):
        del made["description"]
    return made


def _without_nulls(schema: Any, path: str = "") -> Any:
    """With `null` beside one other shape as a part of that: for a form, what is left empty is left
    out.
    """
    if isinstance(schema, list):
        return [_without_nulls(part, path) for part in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: _without_nulls(value, f"{path}.{key}") for key, value in schema.items()}
    if plain.get("format") == "password":
        raise SchemaRefused(
            path, "A secret is not kept, so nobody is asked for it. See context.credential."
        )
    plain.pop("discriminator", None)
    others = [part for part in plain.get("anyOf", []) if part != {"type": "null"}]
    if len(others) != 1 or len(plain["anyOf"]) == 1:
        return plain
    rest = {key: value for key, value in plain.items() if key != "anyOf"}
    if rest.get("default", 0) is None:
        del rest["default"]
    return _or_null(others[0], rest) or {"anyOf": [*others, {"type": "null"}], **rest}


def _or_null(shape: dict[str, Any], rest: dict[str, Any]) -> dict[str, Any] | None:
    """A shape that takes null, too; None where only an alternative can say so."""
    kind = shape.get("type")
    if shape.get("const") is True or (kind is not None and not isinstance(kind, str)):
        return None
    values = shape.get("enum", [shape["const"]] if "const" in shape else None)
    plain = {key: value for key, value in shape.items() if key != "const"}
    if values is None and kind is None:
        return None
    return {
        **plain,
        **rest,
        **({"type": [kind, "null"]} if kind not in {None, "null"} else {}),
        **({"enum": [*values, *([] if None in values else [None])]} if values is not None else {}),
    }
