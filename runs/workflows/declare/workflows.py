"""`workflow(…)` and `use(…)`: one declaration that becomes the same dictionaries as a module's
`STEP_TEMPLATES` and `TEMPLATES`.

What can be told without a server is refused here, with the file and the line. What hangs on
settings and people is checked by the same code as any template (`runs.definitions`), when the
module is loaded and when its templates are saved.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import (
    Any,
    Literal,
    Never,
    Required,
    TypedDict,
    get_args,
)

from runs.workflows import refusals, registry, schemas
from runs.workflows.base import Step
from runs.workflows.base.outcomes import ConfigInvalid
from runs.workflows.base.typed import Shape, schema_of
from runs.workflows.declare import places
from runs.workflows.declare.places import WorkflowInvalid, check_keys
from runs.workflows.declare.standing import LimitUse, ScheduleUse
from runs.workflows.refusals import FieldRefused
from runs.workflows.registry import OnChange
from runs.workflows.reviews import rules as review_rules
from runs.workflows.reviews.calendars import Calendar
from runs.workflows.reviews.review import Review
from runs.workflows.sequence import APPROVE, CANCEL, ON_CANCEL, ON_EXPIRE, REVISE, Choice

Reducer = Literal["replace", "append", "merge", "add", "upsert_by_id", "ephemeral"]
"""How an update of a state key joins the value so far."""
SLUG = re.compile(r"[A-Za-z0-9_-]{1,80}")


class RetryPolicy(TypedDict, total=False):
    """How a failing step is tried again."""

    attempts: Required[int]
    """Tries in all, from 1 to 20."""
    base: float
    """Seconds before the second try at most; doubles with each."""
    cap: float
    """Seconds before any further try at most."""
    errors: Sequence[str]
    """Codes of `StepFailed` or names of exception classes that are worth another try; `*` is
    any.
    """


@dataclass(frozen=True, kw_only=True)
class StepUse:
    """A step as a workflow uses it; `use` makes it."""

    function: str
    """The name under which the step is registered."""
    name: str
    title: str
    config: Mapping[str, Any]
    options: Mapping[str, Any]
    """What the template's step says besides, as `docs/reference/templates.md` has it."""
    sub_steps: tuple[StepUse, ...] = ()
    place: str = ""
    """`file, line n` of the declaration."""
    asked: type[Any] | None = None
    """The type of `required_inputs`, whose own validators look at answers."""


_made = 0
_of_modules: dict[tuple[str, str], Workflow] = {}
"""File and slug → what a module declared at its top level, bound to a name or not."""
_by_functions: dict[tuple[str, str], Workflow] = {}
"""The same of what its functions made while it was imported."""


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """A declared workflow; `workflow` makes it."""

    slug: str
    step_templates: Mapping[str, Mapping[str, Any]]
    """Slug → fields, as a module's `STEP_TEMPLATES`."""
    template: Mapping[str, Any]
    """As a value of a module's `TEMPLATES`."""
    steps: tuple[StepUse, ...]
    place: str
    """`file, line n` of the declaration."""
    input: type[Any] | None = None
    """The type of its input, whose own validators look at orders."""
    limits: tuple[LimitUse, ...] = ()
    schedules: tuple[ScheduleUse, ...] = ()

    def __post_init__(self) -> None:
        global _made
        _made += 1

    @staticmethod
    def made() -> int:
        """How many were declared so far: what was found among them holds until it changes."""
        return _made

    @property
    def title(self) -> str:
        return str(self.template["title"])

    @staticmethod
    def of_file(file: str) -> list[Workflow]:
        """Give what a module's file declared at its top level, also what no name is bound to."""
        return [made for (where, _), made in _of_modules.items() if where == file]

    @staticmethod
    def by_functions(file: str) -> list[Workflow]:
        """Give what functions made while a module's file was imported: it counts where a name of
        the module is bound to it.
        """
        return [made for (where, _), made in _by_functions.items() if where == file]

    def place_of(self, field: str) -> str:
        """Where the declaration of `steps.<n>.…` stands; the workflow's own place for others."""
        root, _, rest = field.partition(".")
        number = rest.partition(".")[0]
        known = root == "steps" and number.isdecimal() and int(number) < len(self.steps)
        return self.steps[int(number)].place if known else self.place


def use(
    step: Step | str,
    *,
    name: str = "",
    title: str = "",
    config: Mapping[str, Any] | None = None,
    sub_steps: Sequence[StepUse | Step] = (),
    step_type: str = "",
    pause_after: bool = False,
    pause_phase: str = "",
    question: str = "",
    may_pass: str = "",
    required_inputs: Shape | None = None,
    review: Review | None = None,
    choices: Sequence[Choice] = (),
    revise_to: str = "",
    max_revisions: int = 3,
    retry: RetryPolicy | None = None,
    timeout: float | None = None,
    skip_when: Mapping[str, Any] | None = None,
    max_loops: int | None = None,
    on_failure: str = "",
    queue: Literal["steps", "agents"] | None = None,
    on_change: OnChange | None = None,
    interrupt_before: bool = False,
    interrupt_after: bool = False,
    **unknown: Never,
) -> StepUse:
    """Say how a workflow uses a step: what it is called there, and when people are asked.

    Args:
        step: the function below `@step`, or the name of one that Waystation brings along, such as
            `deliver`.
        name: unique in the workflow; the last part of the step's registered name where it is left
            out.
        pause_after: whatever the step answers, the run leaves it by the answer of a person alone.
        pause_phase: what the run waits for; `awaiting_<name>_approval` where it is left out.
        question: what is asked after it, such as "Refund {amount} to {customer}?": names are
            filled in from the facts of the report and from the input; one that neither has is
            shown as it is written.
        may_pass: when the step may pass its review by itself, in words ("the confidence is over
            the threshold"): then it answers `Go(…, pass_review=…)`. Left out, it may not.
        title: how pages call it; the name in words where it is left out.
        config: what the step finds in `context.config`.
        sub_steps: what its child runs take (docs/how-to/sub-workflows.md).
        step_type: the kind, which gives the phase; the name where it is left out.
        required_inputs: data that must come with the answer.
        skip_when: JSON Schema; the step is passed over when the state fits it.
        max_loops: how often the step may run in one run; None is 100, and 500 where the step may be
            an agent's. At more the run fails with `loop_limit`, which no `on_failure` catches. A
            job that goes through its rows in chunks by going to itself names a higher number, or
            gathers (docs/how-to/rate-and-concurrency.md).
        on_failure: the step where the run goes when the tries of this one are used up, with the
            error in `context.failure` (docs/how-to/failures-and-ends.md).
        on_change: before what `@step` says of it, which is before what `workflow` says.
        review, choices, revise_to, max_revisions: as docs/reference/templates.md#step has them.
        retry, timeout, queue: as docs/reference/templates.md#step has them.
        interrupt_before, interrupt_after: as docs/reference/templates.md#step has them.

    Raises:
        WorkflowInvalid: with the file and the line.
    """
    place = places.place()
    usual = places.check_keywords(place, use, unknown)
    _check_on_change(on_change, place)
    check_keys("retry", [retry] if retry is not None else [], RetryPolicy, place)
    check_keys("choices", choices, Choice, place)
    function = _name_of(step, place)
    name = name or function.rpartition(".")[2]
    options: dict[str, Any] = {"name": name, "step_type": step_type or name}
    if pause_after or pause_phase:
        options |= {
            "pause_after": True,
            "pause_phase": pause_phase or f"awaiting_{name}_approval",
        }
    if required_inputs is not None:
        options["required_inputs"] = _schema(required_inputs, place, "required_inputs")
    if skip_when is not None:
        options["skip_when"] = _schema(skip_when, place, "skip_when", schemas.check)
    if review is not None:
        options["review"] = _reviewed(review, place)
    if may_pass:
        options["may_pass"] = _passing(may_pass, review, place)
    others = {
        "question": question,
        "choices": [dict(choice) for choice in choices],
        "revise_to": revise_to,
        "max_revisions": max_revisions,
        "retry": dict(retry) if retry is not None else None,
        "timeout": timeout,
        "max_loops": max_loops,
        "on_failure": on_failure,
        "queue": queue,
        "on_change": on_change,
        "interrupt_before": interrupt_before,
        "interrupt_after": interrupt_after,
    }
    options |= {key: value for key, value in others.items() if value not in ([], usual[key])}
    try:
        registry.check_config(function, config or {})
    except ConfigInvalid as error:
        raise WorkflowInvalid(place, f"the configuration of {name}: {error}") from error
    return StepUse(
        function=function,
        name=name,
        title=title or name.replace("_", " ").replace("-", " ").capitalize(),
        config=dict(config or {}),
        options=options,
        sub_steps=tuple(_used(sub_steps, place)),
        place=place,
        asked=_type(required_inputs),
    )


def workflow(
    slug: str,
    *,
    title: str,
    steps: Sequence[StepUse | Step],
    description: str = "",
    input: Shape | None = None,
    state: Shape | None = None,
    reducers: Mapping[str, Reducer] | None = None,
    needs_repository: bool = False,
    frequency: Literal["step", "nodes", "loops", "failure", "off"] | None = None,
    retention: Mapping[str, float | None] | None = None,
    size_budget: int | None = None,
    on_change: OnChange | None = None,
    on_cancel: StepUse | Step | None = None,
    on_expire: StepUse | Step | None = None,
    limits: Sequence[LimitUse] = (),
    schedules: Sequence[ScheduleUse] = (),
    **unknown: Never,
) -> Workflow:
    """Declare a workflow: what orders by it bring, its steps, and how its state is kept.

    Call it in a module that `WAYSTATION_WORKFLOWS` names, at its top level or bound to a name
    of it.
    When the product starts, it becomes the template of that slug.

    Args:
        slug: how it is called in addresses and commands; letters, digits, `-` and `_`.
        title, description: shown where templates are offered.
        steps: in their order; a bare function is `use(function)`.
        input: what an order brings, shown as a form: a pydantic model, a dataclass, a TypedDict, or
            a JSON Schema. A step gets it typed with `read(Model, context.order.input)`.
        state: what its keys hold, in the same way: what a step writes is checked after the step.
            Other keys are free, and so is when a key is written first.
        reducers: how updates of a state key join it; other keys are replaced.
        needs_repository: whether an order names a git repository.
        on_change: `hold` where runs wait for an operator before a step whose code has changed since
            their order; for all steps, and their sub-steps, that say nothing of it themselves.
        on_cancel: a step that runs once when the run was cancelled: with the state as it was, for
            up to five minutes or its `timeout`. It asks nobody and does not wait. The run has ended
            by then, whatever becomes of it; `context.failure` says how
            (docs/how-to/cleanup-on-cancel.md). Not of child runs.
        on_expire: the same when nobody answered in time.
        limits: `limit(…)`: how many runs are at work at once, or begin in a time.
        schedules: `schedule(…)`: when work by it begins by the clock.
        frequency, retention, size_budget: as docs/reference/templates.md#template has them.

    Raises:
        WorkflowInvalid: with the file and the line.
    """
    place = places.place()
    places.check_keywords(place, workflow, unknown)
    if not SLUG.fullmatch(slug):
        raise WorkflowInvalid(
            place, f"{slug!r} is no slug. Use up to 80 letters, digits, hyphens and underscores."
        )
    _check_on_change(on_change, place)
    used = tuple(_with_on_change(_used(steps, place), on_change))
    if not used:
        raise WorkflowInvalid(place, f"The workflow {slug!r} has no steps. Name at least one.")
    ends = {ON_CANCEL: on_cancel, ON_EXPIRE: on_expire}
    used += tuple(_with_on_change(_endings(ends, place), on_change))
    _check_names(used)
    template: dict[str, Any] = {
        "title": title,
        "description": description,
        "needs_repository": needs_repository,
        "steps": [_step_of(slug, step) for step in used],
    }
    if input is not None:
        template["input_schema"] = _schema(input, place, "input")
    if state is not None:
        kept = _schema(state, place, "state")
        loose = {"required", "additionalProperties", "minProperties", "dependentRequired"}
        template["state_schema"] = {key: kept[key] for key in kept if key not in loose}
    if reducers is not None:
        template["reducers"] = _reducers(reducers, place)
    others = {"frequency": frequency, "retention": retention, "size_budget": size_budget}
    template |= {key: value for key, value in others.items() if value is not None}
    kinds = dict(_step_templates(slug, used))
    if long := [kind for kind in kinds if len(kind) > 80]:
        raise WorkflowInvalid(
            place, f"The name {long[0]!r} is too long. Slug and step have 79 characters together."
        )
    made = Workflow(
        slug=slug,
        step_templates=kinds,
        template=template,
        steps=used,
        place=place,
        input=_type(input),
        limits=tuple(_standing("limits", limits, LimitUse, ("name", "pointer"), place)),
        schedules=tuple(_standing("schedules", schedules, ScheduleUse, ("name",), place)),
    )
    file, at_top = places.module_of(places.declaring())
    if at_top:
        _of_modules[file, slug] = made
    elif file:
        _by_functions[file, slug] = made
    return made


def _standing(
    keyword: str, given: Sequence[Any], kind: type[Any], key: tuple[str, ...], place: str
) -> Iterator[Any]:
    """What stands beside the workflow, each under a key of its own."""
    taken: set[tuple[str, ...]] = set()
    for one in given:
        if not isinstance(one, kind):
            raise WorkflowInvalid(place, f"{keyword}: {one!r:.60} is no {keyword[:-1]}(…).")
        own = tuple(getattr(one, name) for name in key)
        if own in taken:
            raise WorkflowInvalid(one.place, f"{keyword}: give this one a `name` of its own.")
        taken.add(own)
        yield one


def _type(shape: Shape | None) -> type[Any] | None:
    return shape if isinstance(shape, type) else None


def _name_of(step: Step | str, place: str) -> str:
    if isinstance(step, str):
        return step
    name = registry.name_of(step)
    if name is None:
        named = getattr(step, "__name__", repr(step))
        raise WorkflowInvalid(
            place, f'{named} is no step. Put @step("….{named}") above the function.'
        )
    return name


def _used(steps: Iterable[StepUse | Step], place: str) -> Iterator[StepUse]:
    for step in steps:
        yield step if isinstance(step, StepUse) else use(step)


def _endings(ends: Mapping[str, StepUse | Step | None], place: str) -> Iterator[StepUse]:
    """The steps that follow an end, which each is called after where it has no `use` of its own."""
    for end, step in ends.items():
        if step is not None:
            used = step if isinstance(step, StepUse) else replace(use(step), name=end)
            yield replace(used, options={**used.options, "name": used.name, "only_on": end})


def _check_on_change(policy: str | None, place: str) -> None:
    if policy is not None and policy not in get_args(OnChange):
        raise WorkflowInvalid(place, refusals.unknown("on_change", policy, get_args(OnChange)))


def _with_on_change(steps: Iterable[StepUse], policy: OnChange | None) -> Iterator[StepUse]:
    """The steps, and theirs at any depth, with the workflow's policy where they have none."""
    for step in steps:
        own = step.options.get("on_change") or registry.traits_of(step.function).on_change or policy
        yield replace(
            step,
            options={**step.options, "on_change": own} if own else step.options,
            sub_steps=tuple(_with_on_change(step.sub_steps, policy)),
        )


def _check_names(steps: Sequence[StepUse]) -> None:
    """Raise WorkflowInvalid for a name that stands twice, and for ways that lead nowhere."""
    names: dict[str, str] = {}
    for step in steps:
        if step.name in names:
            raise WorkflowInvalid(
                step.place,
                f"There is another step {step.name!r} at {names[step.name]}. "
                'Give one of them a name of its own: use(…, name="…").',
            )
        names[step.name] = step.place
    for step in steps:
        choices: list[Choice] = step.options.get("choices", [])
        ways = [step.options.get(key, "") for key in ("revise_to", "on_failure")]
        ways += [choice["to"] for choice in choices]
        for to in filter(None, ways):
            if to not in names:
                raise WorkflowInvalid(step.place, refusals.unknown("step", to, names))
        if taken := {APPROVE, REVISE, CANCEL} & {choice["name"] for choice in choices}:
            raise WorkflowInvalid(step.place, f"{taken.pop()} is an answer already.")


def _step_of(slug: str, step: StepUse) -> dict[str, Any]:
    return {**step.options, "step_template_slug": f"{slug}-{step.name}"}


def _step_templates(slug: str, steps: Iterable[StepUse]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The step templates, those of sub-steps first: a step template is saved after them."""
    for step in steps:
        kind = f"{slug}-{step.name}"
        yield from _step_templates(kind, step.sub_steps)
        fields: dict[str, Any] = {"title": step.title, "function": step.function}
        if step.config:
            fields["config"] = step.config
        if step.sub_steps:
            fields["sub_steps"] = [_step_of(kind, inner) for inner in step.sub_steps]
        yield kind, fields


def _schema(
    shape: Shape, place: str, keyword: str, taken: Callable[[Any], dict[str, Any]] = schema_of
) -> dict[str, Any]:
    try:
        return taken(shape)
    except schemas.SchemaRefused as error:
        name = getattr(shape, "__name__", keyword)
        field = f", field {error.field}" if error.field else ""
        raise WorkflowInvalid(place, f"{keyword}={name}{field}: {error.words}") from error


def _reviewed(rules: Review, place: str) -> Review:
    deadline: Any = rules.get("deadline") if isinstance(rules, Mapping) else None
    named = deadline.get("calendar", "") if isinstance(deadline, Mapping) else ""
    try:  # which calendars there are is the server's
        return review_rules.check(rules, {named: Calendar(days=frozenset(range(7)))})
    except FieldRefused as error:
        raise WorkflowInvalid(place, f"review.{error.field}: {error}") from error


def _passing(words: str, review: Review | None, place: str) -> str:
    try:
        review_rules.check_pass(review or {})
    except FieldRefused as error:
        raise WorkflowInvalid(place, f"{error.field}: {error}") from error
    return words


def _reducers(rules: Mapping[str, Reducer], place: str) -> dict[str, str]:
    for key, reducer in rules.items():
        if reducer not in get_args(Reducer):
            message = refusals.unknown("reducer", str(reducer), get_args(Reducer))
            raise WorkflowInvalid(place, f"reducers, state key {key!r}: {message}")
    return dict(rules)
