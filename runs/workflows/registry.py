"""Step functions by the name that step templates use, and what each of them says of itself.

What the engine has to know of a step beyond its function is declared here and nowhere else: the
core has no case for any step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import (
    isasyncgenfunction,
    iscoroutinefunction,
    isgeneratorfunction,
    signature,
    unwrap,
)
from typing import Any, Literal, TypeVar, get_args, get_type_hints

from runs.workflows import owned, refusals, schemas
from runs.workflows.base import ConfigInvalid, Context, Outcome, Step
from runs.workflows.base.feedback import FeedbackReader
from runs.workflows.base.pictures import StepPicture
from runs.workflows.base.typed import Shape, faults, schema_of
from runs.workflows.letters import Letter
from runs.workflows.owned import Keeps
from runs.workflows.schemas import SchemaRefused

F = TypeVar("F", bound=Callable[[Any, Context], Outcome])
Config = Mapping[str, Any]
"""A step template's configuration."""
Setting = Callable[[str], Any]
"""`setting("WAYSTATION_MODEL")`: what operators settled for this server."""
OnChange = Literal["continue", "hold"]
"""What a run does at a step whose code is not the code that the work was asked with: go on with
it, or wait for an operator.
"""
LONGEST = 120
"""Characters of a step function's name."""
NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{LONGEST}}}")
Lack = tuple[str, str]
"""A stable code, and what is missing in words."""


class UnknownStep(Exception):
    """A template names a step function that this code does not have."""


class NotReady(Exception):
    """A step needs what this server does not have, such as an agent that writes code.

    Nothing was made.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class ServerSide:
    """How a step's configuration and the settings of a server come together.

    A step that depends on no setting needs none of it.
    """

    def check(self, config: Config, setting: Setting) -> None:
        """Raise ConfigInvalid where this server does not allow what the configuration asks for;
        when it is saved.
        """

    def completed(self, config: Config, setting: Setting) -> dict[str, Any]:
        """The configuration with what settings say where it says nothing; when an order freezes
        it.
        """
        return dict(config)

    def require(self, config: Config, setting: Setting) -> None:
        """Raise NotReady where nobody could do this step; when an order is made.

        The configuration is a completed one.
        """

    def seconds(self, config: Config, setting: Setting) -> float:
        """How long one try may take by the limits of the configuration's own, where those are
        longer than WAYSTATION_STEP_TIMEOUT; a `timeout` of the template comes first.
        """
        return 0.0

    def lacks(self, config: Config, setting: Setting) -> Iterable[Lack]:
        """What this server lacks for it, for the pages that offer templates.

        The configuration is a completed one.
        """
        return ()


@dataclass(frozen=True)
class Traits:
    """What a step function says of itself beside what it does."""

    check: Callable[[Config], None] | None = None
    """Looks at a step template's configuration when it is saved; raises ConfigInvalid."""
    asks: bool = False
    """It may give an Ask although its template does not pause after it: no run goes on from
    imported work behind such a step.
    """
    needs_request: bool = False
    """It works from the order's request: no order is made without one."""
    uses_models: bool = False
    """Its configuration may name models, tools and credentials of an agent."""
    asks_servers_model: bool = False
    """Where its configuration names no model, the server's own is asked."""
    uses_tools: bool = False
    """Its configuration names tools, and rules on which of their calls are asked about."""
    loops: bool = False
    """It goes to itself until its work is done: pages show which loop it is in."""
    delivers: bool = False
    """It pushes: who orders learns at once what they may not have pushed. Every push is checked
    again when it is made.
    """
    keeps: Mapping[str, Keeps] = field(default_factory=dict)
    """State keys in which it keeps what it alone knows: nobody hands them in."""
    letters: Mapping[str, Letter] = field(default_factory=dict)
    """Texts that it sends, by name, which operators may write anew: `texts` of its
    configuration.
    """
    reducers: Mapping[str, str] = field(default_factory=dict)
    """How what it writes joins the state, in templates that say nothing of their own."""
    server: ServerSide = field(default_factory=ServerSide)
    """How its configuration and the settings of a server come together."""
    on_change: OnChange | None = None
    """`continue` or `hold` where its code has changed under work, in templates whose step says
    nothing of its own; None for what the server says."""
    config: Shape | None = None
    """What its configuration holds: the form of a step template is made of it. Without a `check`
    it is what the configuration is checked against."""
    reads: Shape | None = None
    """Keys of the state that it reads."""
    writes: Shape | None = None
    """Keys of the state that it writes."""
    picture: StepPicture = field(default_factory=StepPicture)
    """What it works through inside, as pages draw it."""
    asks_beside: str = ""
    """The step function that asks in child runs of its own what this one has to ask at once: one
    question each, to be answered in any order. It stands under this one's name and rules."""
    feedback: FeedbackReader | None = None
    """How it reads a reviewer's words, where it does not take any: those that it would not
    understand are refused before they cost a round.
    """


_STEPS: dict[str, Step] = {}
"""By name; versions from 2 on by `name@version`."""
_LATEST: dict[str, int] = {}
"""Name → highest version, of names that have one above 1."""
_TRAITS: dict[str, Traits] = {}


def step(
    name: str,
    *,
    check: Callable[[Config], None] | None = None,
    asks: bool = False,
    needs_request: bool = False,
    uses_models: bool = False,
    asks_servers_model: bool = False,
    uses_tools: bool = False,
    loops: bool = False,
    delivers: bool = False,
    keeps: Mapping[str, Keeps] | None = None,
    letters: Mapping[str, Letter] | None = None,
    reducers: Mapping[str, str] | None = None,
    server: ServerSide | None = None,
    on_change: OnChange | None = None,
    config: Shape | None = None,
    reads: Shape | None = None,
    writes: Shape | None = None,
    picture: StepPicture | None = None,
    feedback: FeedbackReader | None = None,
    asks_beside: str = "",
    version: int = 1,
) -> Callable[[F], F]:
    """Register a step function under the name that step templates use, e.g. `repo_tidy.plan`.

    The arguments between `name` and `version` are the fields of `Traits`. The function is given
    back as it is. Its state may be annotated as a TypedDict of the workflow's own.

    Args:
        name: up to 120 letters, digits, dots, `-` and `_`.
        config: what its configuration holds, as a pydantic model, a dataclass, a TypedDict or a
            JSON Schema: pages make a form of it, and it is what is checked where there is no
            `check`.
        reads, writes: keys of the state, in the same way, for those who put steps together. What
            it reads is the annotation of its state where this is left out.
        version: of the function, from 1. Versions of one name may stand beside each other: work
            that is asked for takes the highest, and runs under way finish on the one that they
            were made with. A run whose version is gone is held, and loses nothing. What the step
            says of itself is that of its highest version (docs/how-to/change-workflows.md).
    Raises:
        ValueError: another function has that name and version, the version is below 1, or
            `on_change` is no known word.
    """
    if version < 1 or "@" in name:
        raise ValueError(f"{name!r}, version {version}: names are without @, versions from 1 on")
    if on_change is not None and on_change not in get_args(OnChange):
        words = refusals.unknown("on_change", on_change, get_args(OnChange))
        raise ValueError(f"{name!r}: {words}")
    traits = Traits(
        check,
        asks,
        needs_request,
        uses_models,
        asks_servers_model,
        uses_tools,
        loops,
        delivers,
        keeps or {},
        letters or {},
        reducers or {},
        server or ServerSide(),
        on_change,
        config,
        reads,
        writes,
        picture or StepPicture(),
        asks_beside,
        feedback,
    )

    def register(function: F) -> F:
        _check_plain(name, function)
        key = _key(name, version)
        if (other := _STEPS.setdefault(key, function)) is not function:
            raise ValueError(
                f"two step functions are called {key!r}: {_place(other)} and {_place(function)}. "
                "Give one of them another name."
            )
        owned.declare(traits.keeps)
        if version >= latest_version(name):
            _TRAITS[name] = traits
        if version > latest_version(name):
            _LATEST[name] = version
        return function

    return register


def _check_plain(name: str, function: Step) -> None:
    """Raise ValueError for a name that no address can hold, and for a function whose call runs
    nothing.
    """
    if not NAME.fullmatch(name):
        raise ValueError(
            f"{name!r}, {_place(function)}: a step's name has up to {LONGEST} letters, digits, "
            "dots, - and _, such as shop.refund"
        )
    inner = unwrap(function)
    kinds = {
        "an async function": iscoroutinefunction(inner) or isasyncgenfunction(inner),
        "a generator": isgeneratorfunction(inner),
    }
    for kind in (kind for kind, so in kinds.items() if so):
        raise ValueError(
            f"{name!r}, {_place(function)}: a step is an ordinary function, and this is {kind}, "
            "of which a call runs nothing. Inside a step, asyncio.run(…) runs what is async"
        )


def _place(function: Step) -> str:
    code = getattr(unwrap(function), "__code__", None)
    return f"{code.co_filename}, line {code.co_firstlineno}" if code else repr(function)


def name_of(function: Step) -> str | None:
    """The name under which a function is registered; None where it is no step."""
    keys = (key for key, known in _STEPS.items() if known is function)
    return next((key.partition("@")[0] for key in keys), None)


def is_known(name: str) -> bool:
    """Whether a step function of that name is registered, of any version."""
    return any(key.partition("@")[0] == name for key in _STEPS)


def find(name: str, version: int | None = None) -> Step:
    """The step function of that name: of the highest version where none is named.

    Raises UnknownStep.
    """
    key = _key(name, latest_version(name) if version is None else version)
    if key not in _STEPS:
        raise UnknownStep(
            f"there is no step function {key!r}; known are {', '.join(sorted(_STEPS))}"
        )
    return _STEPS[key]


def latest_version(name: str) -> int:
    """The version that work takes which is asked for now; 1 where the name is not known here."""
    return _LATEST.get(name, 1)


def _key(name: str, version: int) -> str:
    return name if version == 1 else f"{name}@{version}"


def traits_of(name: str) -> Traits:
    """What the step function of that name says of itself; nothing where it is not known here."""
    return _TRAITS.get(name, Traits())


def asks_by_itself(name: str) -> bool:
    """Whether the step function of that name may ask somebody, whatever its template says.

    One that is not known here may.
    """
    return name not in _TRAITS or traits_of(name).asks


def check_config(name: str, config: Config) -> None:
    """Raise ConfigInvalid where that step function could not use this configuration."""
    traits = traits_of(name)
    if traits.check is not None:
        try:
            traits.check(config)
        except (ConfigInvalid, SchemaRefused, KeyboardInterrupt):
            raise
        except BaseException as error:  # it is an author's code, and runs in web servers
            broken = f"The check of {name} broke with {type(error).__name__}"
            raise ConfigInvalid.of("", f"{broken}. Its author can mend it.") from error
    elif traits.config is not None and (errors := _config_faults(traits.config, config)):
        raise ConfigInvalid(errors)


def _config_faults(shape: Shape, config: Config) -> dict[str, list[str]]:
    schema = schema_of(shape)
    known = schemas.declared(schema)
    closed = isinstance(shape, type) or schema.get("additionalProperties") is False
    errors = {
        str(name): [refusals.unknown("key", str(name), known)]
        for name in config
        if closed and name not in known
    }
    errors = errors or schemas.validate_resume_payload(schema, dict(config))
    return errors or (faults(shape, config) if isinstance(shape, type) else {})


def config_schema(name: str) -> dict[str, Any] | None:
    """JSON Schema of that step function's configuration; None where it says nothing of it."""
    shape = traits_of(name).config
    return schema_of(shape) if shape is not None else None


def state_schemas(name: str) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """JSON Schemas of the keys of the state that the step function reads, and of those that it
    writes; None where it does not say.
    """
    traits = traits_of(name)
    reads = traits.reads if traits.reads is not None else _annotated(name)
    return _schema(reads), _schema(traits.writes)


def _annotated(name: str) -> Shape | None:
    """The type that the step function's author gave its state."""
    try:
        function = unwrap(find(name))
        state = next(iter(signature(function).parameters), "")
        shape = get_type_hints(function).get(state)
    except (UnknownStep, NameError, TypeError, ValueError):
        return None  # written for a type checker alone
    return shape if isinstance(shape, type) else None


def _schema(shape: Shape | None) -> dict[str, Any] | None:
    try:
        return schema_of(shape) if shape is not None else None
    except schemas.SchemaRefused:
        return None  # of a state that no document can describe


def known() -> list[str]:
    """Names of all registered step functions, each once."""
    return sorted({key.partition("@")[0] for key in _STEPS})


def with_sub_steps(steps: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The steps and their sub-steps, at any depth."""
    for step in steps:
        yield step
        yield from with_sub_steps(step.get("sub_steps", []))


def need_request(steps: Sequence[Mapping[str, Any]]) -> bool:
    """Whether one of them works from the order's request."""
    return any(traits_of(step["function"]).needs_request for step in with_sub_steps(steps))


def reducers_of(steps: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """How what these steps write joins the state where their template says nothing of its own."""
    return {
        key: reducer
        for step in with_sub_steps(steps)
        for key, reducer in traits_of(step["function"]).reducers.items()
    }


def require(steps: Sequence[Mapping[str, Any]], setting: Setting) -> None:
    """Raise NotReady where one of them, whose configurations are completed ones, would have nobody
    to do it.
    """
    for step in with_sub_steps(steps):
        traits_of(step["function"]).server.require(step["config"], setting)
