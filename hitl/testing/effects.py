"""Effects outside: the calls that reach beyond the run, counted, each with the author's line that
made it.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pkgutil
import re
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

from checkpoints.ids import ALPHABET
from hitl.testing import moments
from runs.engine.context import effects as engine_effects

Watched = str | Callable[..., Any]
"""A function, or its dotted name."""
ID = re.compile(rf"\b[a-z]{{2,4}}_[{ALPHABET}]{{26}}\b")
"""An id of ours; those of questions, decisions and child runs are others in each run."""
KEY = re.compile(rf"\brun_[{ALPHABET}]{{26}}/[^/]+/\d+")
"""`Context.key`."""
ADDRESS = re.compile(r"\b0x[0-9a-f]+\b")
_OURS = Path(__file__).resolve().parents[2]
_NOT_THE_AUTHORS = tuple(
    f"{path}{os.sep}"
    for path in (
        *(_OURS / name for name in ("checkpoints", "hitl", "project")),
        *(_OURS / "runs" / name for name in ("engine", "workflows", "testing", "agents")),
        *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")),
    )
)
_ONCE = engine_effects._do_once.__code__


@dataclass(frozen=True)
class EffectCall:
    """An effect that happened."""

    name: str
    arguments: str
    """Their digest: what they are is shown to nobody, since secrets may be among them."""
    keyed: bool
    """`Context.key` is among them, so the receiver can tell a repetition."""
    recorded: bool
    """It was made in a function that was given to `context.once`."""
    place: str
    """`shop/refund.py:41 in pay()`: the author's line that called it."""


@dataclass
class Recorder:
    """The effects of one run, in their order."""

    folder: str = ""
    """The engine's own, which is another in each run."""
    calls: list[EffectCall] = field(default_factory=list)
    tell: Callable[[EffectCall], None] = lambda call: None

    def record(self, name: str, arguments: Sequence[Any], frame: FrameType | None) -> None:
        """Note an effect whose caller is `frame`, and let the worker die right after it."""
        told = repr([_named(one) if callable(one) else one for one in arguments])
        if self.folder:
            told = told.replace(self.folder, "")
        plain = ADDRESS.sub("", ID.sub("", told))
        digest = hashlib.sha256(plain.encode(errors="replace")).hexdigest()
        place, recorded = _place(frame)
        call = EffectCall(name, digest, KEY.search(told) is not None, recorded, place)
        self.calls.append(call)
        self.tell(call)
        moments.tick(f"after {name}")


_recorder: Recorder | None = None


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Count what happens outside in this block."""
    global _recorder
    _recorder = recorder
    try:
        yield
    finally:
        _recorder = None


def outside(name: str, *arguments: Any) -> None:
    """Tell the kit that something has happened outside; for the fake that stands for a service.

    Call it where the effect has happened. `arguments` tell one effect from another of the same
    name; an idempotency key among them says that the receiver does each once. Outside of the kit
    the call does nothing.
    """
    moments.refuse_the_dead()
    if _recorder is not None:
        caller = sys._getframe(1).f_back  # of the fake
        _recorder.record(name, arguments, caller)


@contextmanager
def watched(functions: Sequence[Watched]) -> Iterator[list[str]]:
    """Count the calls of these functions, wherever a module refers to them; gives their names."""
    names = []
    with ExitStack() as stack:
        for function in functions:
            original = pkgutil.resolve_name(function) if isinstance(function, str) else function
            name = _named(original)
            names.append(name)
            places = list(_references(original))
            if not places:
                raise LookupError(
                    f"No module refers to {name}, so its calls cannot be counted. Name a function "
                    "of a module or a class, or call hitl.testing.outside in your fake."
                )
            wrapper = _counted(getattr(original, "__func__", original), name, of_class=places[0][2])
            for owner, attribute, _ in places:
                stack.enter_context(patch.object(owner, attribute, wrapper))
        yield names


def _named(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def _counted(original: Callable[..., Any], name: str, *, of_class: bool) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*arguments: Any, **named: Any) -> Any:
        moments.refuse_the_dead()
        result = original(*arguments, **named)
        if _recorder is not None:
            given = arguments[1:] if of_class else arguments
            parts = [part for item in sorted(named.items()) for part in item]
            _recorder.record(name, [*given, *parts], sys._getframe(1))
        return result

    return call


def _references(function: Callable[..., Any]) -> Iterator[tuple[Any, str, bool]]:
    """Where a function is found: (owner, attribute, whether the owner is a class)."""
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, type(sys)):  # a bound method
        kind = owner if isinstance(owner, type) else type(owner)
        yield kind, function.__name__, True
        return
    *above, name = getattr(function, "__qualname__", "").split(".")
    home: Any = sys.modules.get(getattr(function, "__module__", "") or "")
    for part in above:
        home = getattr(home, part, None)
    if above and isinstance(home, type):
        yield home, name, True
        return
    for module in sys.modules.copy().values():
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            if value is function:
                yield module, attribute, False


def _place(frame: FrameType | None) -> tuple[str, bool]:
    """The author's line nearest to an effect, and whether `context.once` made the call."""
    line, function, recorded = "", "", False
    while frame is not None:
        code = frame.f_code
        recorded = recorded or code is _ONCE
        if not code.co_filename.startswith((*_NOT_THE_AUTHORS, "<")):
            line = line or f"{_short(code.co_filename)}:{frame.f_lineno}"
            if not function and not code.co_name.startswith("<"):  # a lambda says little
                function = code.co_name
        frame = frame.f_back
    return (f"{line} in {function}()" if function else line) or "unknown place", recorded


def _short(path: str) -> str:
    """The last two parts of a path: as much as finds the file."""
    return "/".join(Path(path).parts[-2:])
