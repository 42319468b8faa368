"""What may be in a graph's checkpoint: JSON-like values and the types on an allow-list, as msgpack.

Nothing is ever unpickled: that would run whatever code the bytes name.

LangGraph's own serializer makes an object of any type it finds in a payload, with a warning. This
one refuses instead, and already at write where it can: a type that could not be read back fails the
step that produced it, not the person who resumes a week later. What a graph's schemas and channels
name is allowed to that graph, as in LangGraph's strict mode.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextvars import ContextVar
from typing import Any

import ormsgpack
from langgraph._internal import _serde
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_METHODS, SAFE_MSGPACK_TYPES
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import (
    EXT_CONSTRUCTOR_KW_ARGS,
    EXT_CONSTRUCTOR_POS_ARGS,
    EXT_CONSTRUCTOR_SINGLE_ARG,
    EXT_DELTA_SNAPSHOT,
    EXT_METHOD_SINGLE_ARG,
    EXT_NUMPY_ARRAY,
    EXT_PYDANTIC_V1,
    EXT_PYDANTIC_V2,
    JsonPlusSerializer,
)

KINDS = frozenset({"null", "bytes", "bytearray", "json", "msgpack"})
"""Of payloads; an encrypted one is `msgpack+<cipher>`."""
NAMED = {
    EXT_CONSTRUCTOR_SINGLE_ARG,
    EXT_CONSTRUCTOR_POS_ARGS,
    EXT_CONSTRUCTOR_KW_ARGS,
    EXT_PYDANTIC_V1,
    EXT_PYDANTIC_V2,
}
_serde.STRICT_MSGPACK_ENABLED = True  # type: ignore[attr-defined]  # imported and asked there
"""A graph that is compiled from here on reads the types of its schemas and channels and names them
to its saver (`with_allowlist`), as it does where LANGGRAPH_STRICT_MSGPACK is set. Savers that allow
every type, as LangGraph's own do by default, stay as they are."""
_blocked: ContextVar[list[str] | None] = ContextVar("blocked", default=None)


class PayloadRefused(TypeError):
    """A value is of a type that no checkpoint may hold."""

    code = "payload_refused"


class StrictSerializer(JsonPlusSerializer):
    """LangGraph's serializer with an allow-list that is enforced.

    `allow` names your own types, as classes or as `("module", "Name")`, beside those that LangGraph
    takes for safe: dates, UUIDs, sets, paths, LangChain's messages and the like.
    """

    def __init__(self, allow: Iterable[type | tuple[str, ...]] = ()) -> None:
        super().__init__(
            pickle_fallback=False,
            allowed_json_modules=None,
            allowed_msgpack_modules=tuple(allow) or None,
        )

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        kind, data = self.dump(obj)
        if kind == "msgpack":
            self.check(data)
        return kind, data

    def dump(self, obj: Any) -> tuple[str, bytes]:
        """Without a look at the types: `check` is to follow."""
        try:
            return super().dumps_typed(obj)
        except ormsgpack.MsgpackEncodeError as error:
            raise PayloadRefused(f"A value cannot be kept in a checkpoint: {error}.") from error

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        check_kind(data[0])
        blocked: list[str] = []
        token = _blocked.set(blocked)
        try:
            value = super().loads_typed(data)
        finally:
            _blocked.reset(token)
        if blocked:
            raise _refusal(blocked[0])
        return value

    def check(self, data: bytes) -> None:
        """Raise PayloadRefused where msgpack names a type that is not allowed, at any depth.

        Nothing is made of what it says.
        """
        allowed = self._allowed_msgpack_modules
        known: Collection[Any] = allowed if isinstance(allowed, set) else ()
        strangers: list[str] = []  # raising in the hook would lose the words

        def look(code: int, payload: bytes) -> Any:
            if code == EXT_NUMPY_ARRAY:
                return None
            value = ormsgpack.unpackb(payload, ext_hook=look, option=ormsgpack.OPT_NON_STR_KEYS)
            if code == EXT_DELTA_SNAPSHOT:
                return None
            name = (value[0], value[1])
            method = code == EXT_METHOD_SINGLE_ARG and (*name, value[3]) in SAFE_MSGPACK_METHODS
            if not method and not (code in NAMED and (name in SAFE_MSGPACK_TYPES or name in known)):
                strangers.append(".".join(name))
            return ()  # stands for the object; it may have to be a key

        ormsgpack.unpackb(data, ext_hook=look, option=ormsgpack.OPT_NON_STR_KEYS)
        if strangers:
            raise _refusal(strangers[0])


def check_kind(kind: str) -> None:
    if kind.partition("+")[0] not in KINDS:
        raise PayloadRefused(
            f"A checkpoint holds a payload of the kind {kind[:40]!r}, which is never read. "
            "Nothing was resumed from it."
        )


def strict(serde: SerializerProtocol | None) -> SerializerProtocol:
    """The serializer to use where somebody gave `serde`: LangGraph's own ones that make anything of
    a payload become strict.
    """
    if serde is None:
        return StrictSerializer()
    if isinstance(serde, EncryptedSerializer):
        inner = strict(serde.serde)
        return serde if inner is serde.serde else EncryptedSerializer(serde.cipher, inner)
    if isinstance(serde, JsonPlusSerializer) and not isinstance(serde, StrictSerializer):
        allowed = serde._allowed_msgpack_modules
        return StrictSerializer(allowed if isinstance(allowed, set) else ())
    return serde


def _refusal(name: str) -> PayloadRefused:
    module, _, kind = name.rpartition(".")
    return PayloadRefused(
        f"{name} is not on the allow-list of types that a checkpoint may hold. Name it in the "
        "graph's schema, or allow it: "
        f"DjangoSaver(..., serde=StrictSerializer(allow=[({module!r}, {kind!r})]))."
    )


def _note(event: SerdeEvent) -> None:
    blocked = _blocked.get()
    if blocked is not None and event["kind"] in {"msgpack_blocked", "msgpack_method_blocked"}:
        blocked.append(f"{event['module']}.{event['name']}")


register_serde_event_listener(_note)
