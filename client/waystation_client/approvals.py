"""A call that people approve: what stands for it, and what is asked."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast

from waystation_client.questions import Asking, Rules, wait_of
from waystation_client.rest.models import WaitIn

DEADLINE = "PT1H"
"""How long people may take, unless the rules say otherwise."""
Key = str | Callable[..., str]


def check(rules: Rules, key: Key = "", valid_for: int | None = None) -> Rules:
    """Raises TypeError for what the call itself says: what is asked, and under which name; and for
    a time without the key that it is about.
    """
    if valid_for is not None and not key:
        raise TypeError("valid_for is about the answer under a key: name a key.")
    if unknown := sorted(rules.keys() - Rules.__optional_keys__):
        raise TypeError(f"requires_approval takes no {', '.join(unknown)}.")
    return rules


@dataclass(frozen=True)
class Call:
    """One call as it is shown: its arguments are JSON, and what is approved is what runs."""

    name: str
    shown: str
    """The arguments as JSON: nobody can change them while people think."""
    bound: inspect.BoundArguments
    """Holds the arguments that are not shown."""

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        name: str = "",
        unshown: Collection[str] = (),
    ) -> Call:
        """Raises TypeError for an argument that JSON would change, and for ones that do not fit."""
        signature = _signature(function)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if missing := set(unshown) - set(signature.parameters):
            raise TypeError(f"{function.__qualname__} takes no {', '.join(sorted(missing))}.")
        shown: dict[str, Any] = {}
        for parameter, given in bound.arguments.items():
            value = list(given) if _is_rest(signature, parameter) else given
            if parameter not in unshown:
                shown[parameter] = value
                if not _survives(value):
                    raise TypeError(
                        f"The argument {parameter} is no plain JSON, so nobody could be shown it as"
                        " it is. Pass texts, numbers, lists and dicts, or name it in `unshown`."
                    )
        called = name or f"{function.__module__}.{function.__qualname__}"
        return cls(called, json.dumps(shown, allow_nan=False), bound)

    def key(self, key: Key) -> str:
        """The key of this call: a text, or what a function gives that takes its arguments."""
        if isinstance(key, str):
            return key
        given = key(*self.bound.args, **self.bound.kwargs)
        if not isinstance(given, str) or not given:
            raise TypeError("The key of this call is no text, so nobody was asked.")
        return given

    def asked(
        self, question: str, rules: Rules, *, key: Key = "", valid_for: int | None = None
    ) -> WaitIn:
        """The question for this call."""
        text = json.dumps(json.loads(self.shown), indent=2, ensure_ascii=False)
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
        shown = f"To be called: `{self.name}`\n\n{fence}json\n{text}\n{fence}\n"
        words = {
            **rules,
            "node_id": "call",
            "key": self.key(key),
            "content": f"{rules.get('content', '')}\n\n{shown}".strip(),
            "state": {"function": self.name, "arguments": json.loads(self.shown)},
        }
        if valid_for is not None:
            words["valid_for"] = valid_for
        asking = cast(Asking, words)
        if "deadline" not in rules.get("review", {}):
            asking.setdefault("deadline", DEADLINE)
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", self.name)[-120:]
        words_of_it = (question or f"Call {self.name}?")[:300]
        return wait_of(words_of_it, asking, prefix=f"call-{plain}")

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What the function is called with: the arguments that were shown, and those that were
        not.
        """
        for parameter, value in json.loads(self.shown).items():
            rest = _is_rest(self.bound.signature, parameter)
            self.bound.arguments[parameter] = tuple(value) if rest else value
        return self.bound.args, self.bound.kwargs


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """What a function takes. From Python 3.14 on its annotations may name what is imported for a
    type checker alone, so they stay texts.
    """
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.STRING)
    else:
        return inspect.signature(function)


def _is_rest(signature: inspect.Signature, parameter: str) -> bool:
    return signature.parameters[parameter].kind is inspect.Parameter.VAR_POSITIONAL


def _survives(value: Any) -> bool:
    try:
        return _same(json.loads(json.dumps(value, allow_nan=False)), value)
    except (TypeError, ValueError, RecursionError):
        return False


def _same(read: Any, given: Any) -> bool:
    """Whether JSON gives back what it got, with the same types: no tuple, no number as a key."""
    if type(read) is not type(given):
        return False
    if isinstance(given, dict):
        return read.keys() == given.keys() and all(_same(read[key], given[key]) for key in given)
    if isinstance(given, list):
        return len(read) == len(given) and all(map(_same, read, given))
    return bool(read == given)
