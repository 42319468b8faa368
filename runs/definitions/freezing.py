"""Freeze a template into a definition: its steps with everything filled in, under a digest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings

from checkpoints.state import codec
from checkpoints.store.prepared_queries import Prepared
from runs.definitions import step_options
from runs.definitions.checks import check_no_secrets
from runs.definitions.errors import TemplateInvalid, refused, refusing
from runs.models import Definition, StepTemplate, Template
from runs.models.frequency import Frequency
from runs.models.kinds import Kinds
from runs.workflows import refusals, registry, schemas
from runs.workflows.code.asked import ApprovalWanted, renamed, required_approvals, targets
from runs.workflows.code.fingerprint import fingerprint
from runs.workflows.registry import UnknownStep, find
from runs.workflows.sequence import Choice, FrozenStep

MAX_STEPS = 50
RESERVED = {"approve", "revise", "cancel"}
"""Answers that every question may have, so no choice is called so."""
CHOICE_KEYS = {"name", "label", "to"}
UNFIT_FOR_ENDINGS = (
    "pause_after", "pause_phase", "choices", "required_inputs", "review", "may_pass", "on_failure",
    "interrupt_before", "interrupt_after", "sub_steps",
)  # fmt: skip
"""What a step that follows an end cannot say."""
STEP_KEYS = frozenset({
    "name", "step_type", "step_template_slug", "pause_after", "pause_phase", "revise_to", "choices",
    "max_revisions",
    *step_options.SCHEMA["properties"],
})  # fmt: skip
"""All keys of a template's step: a misspelt key, if it were allowed, would be a rule that nothing
keeps.
"""


def setting(name: str) -> Any:
    """Read a setting of the operators, for `runs.workflows.registry.ServerSide`."""
    return getattr(settings, name)


def frozen(template: Template, *, kinds: Kinds | None = None) -> dict[str, Any]:
    """Make the content of the template's definition."""
    steps = freeze_steps(template.steps, kinds=kinds)
    content: dict[str, Any] = {
        "template": template.slug,
        "version": template.version,
        "steps": steps,
        "reducers": template.reducers,
    }
    if endings := freeze_endings(template.steps, kinds=kinds):
        content["endings"] = endings
    if template.frequency != Frequency.STEP:
        content["frequency"] = template.frequency
    if template.state_schema:
        content["state_schema"] = schemas.check(template.state_schema)
    if template.size_budget is not None:
        content["size_budget"] = template.size_budget
    return content


def below(above: Definition, digest: str) -> Definition | None:
    """Find the definition of that digest among those of the child runs that a definition's steps
    may start (of all sub-steps of a step, or of one), and of the steps that follow its end.

    Call inside a transaction.
    """
    contents = [
        {**above.content, "steps": steps}
        for step in above.steps
        if (subs := step.get("sub_steps", []))
        for steps in [subs, *([sub] for sub in subs)]
    ]
    contents += [ending_content(above.content, one) for one in _endings_of(above.content)]
    for content in contents:
        if codec.digest(codec.encode(content)) == digest:
            values = {
                "template_slug": above.template_slug,
                "template_version": above.template_version,
                "content": content,
            }
            return Definition.objects.get_or_create(digest=digest, defaults=values)[0]
    return None


def _endings_of(content: Mapping[str, Any]) -> list[FrozenStep]:
    return list(content.get("endings", {}).values())


def ending_content(above: Mapping[str, Any], step: FrozenStep) -> dict[str, Any]:
    """What the run of a step is pinned to that follows an end: the step alone."""
    kept = {key: value for key, value in above.items() if key != "endings"}
    return {**kept, "steps": [step], "ending": step.get("only_on", "")}


_stored_definition = Prepared(lambda digest: Definition.objects.filter(pk=digest), str)


def freeze(template: Template, *, kinds: Kinds | None = None) -> Definition:
    """Save the template with its current step templates, under the digest of that content.

    Call inside a transaction. Raises NotReady.
    """
    content = frozen(template, kinds=kinds)
    registry.require([*content["steps"], *_endings_of(content)], setting)
    digest = codec.digest(codec.encode(content))
    if stored := _stored_definition.get(digest):
        return stored[0]
    values = {
        "template_slug": template.slug,
        "template_version": template.version,
        "content": content,
    }
    return Definition.objects.get_or_create(digest=digest, defaults=values)[0]


def freeze_steps(
    steps: Any, *, inside: tuple[str, ...] = (), kinds: Kinds | None = None
) -> list[FrozenStep]:
    """Fill in everything that a template's steps leave out; raises TemplateInvalid.

    `inside` names the step templates of which the steps are sub-steps. Those that follow an end are
    checked, and left out: `freeze_endings` gives them.
    """
    frozen = _freeze_all(steps, inside=inside, kinds=kinds)
    in_sequence = [step for step in frozen if "only_on" not in step]
    if len(in_sequence) < len(frozen):
        _check_endings(frozen, inside=inside)
    _check_answers(in_sequence)
    _check_approvals_wanted(in_sequence)
    _check_targets(in_sequence)
    return in_sequence


def freeze_endings(steps: Any, *, kinds: Kinds | None = None) -> dict[str, FrozenStep]:
    """Fill in, as `freeze_steps`, the steps that follow an end, by that end."""
    if not any("only_on" in step for step in steps):
        return {}
    return {
        step["only_on"]: step
        for step in _freeze_all(steps, inside=(), kinds=kinds)
        if "only_on" in step
    }


def _check_endings(steps: Sequence[FrozenStep], *, inside: tuple[str, ...]) -> None:
    """Raise TemplateInvalid for steps that follow an end and cannot: they run alone, once, and
    nobody is there to ask.
    """
    taken: set[str] = set()
    for position, step in enumerate(steps):
        place = f"steps.{position}.only_on"
        if (end := step.get("only_on")) is None:
            if taken:
                raise refused(place, "The steps that follow an end stand behind all others.")
            continue
        if position == 0:
            raise refused(place, "A template has a step that does not follow an end.")
        if inside:
            raise refused(place, "A sub-step cannot follow an end: the workflow's own run has it.")
        if end in taken:
            raise refused(place, f"There is another step with only_on {refusals.in_json(end)}.")
        taken.add(end)
        wrong = [name for name in UNFIT_FOR_ENDINGS if step.get(name)]
        if wrong or registry.asks_by_itself(step["function"]):
            because = f"so it says no {wrong[0]}" if wrong else "and its function may ask"
            raise refused(place, f"A step that follows an end asks nobody, {because}.")


def _freeze_all(steps: Any, *, inside: tuple[str, ...], kinds: Kinds | None) -> list[FrozenStep]:
    kinds = kinds or Kinds()
    if len(inside) > settings.WAYSTATION_GATHER_DEPTH:
        raise refused(
            "sub_steps",
            f"Sub-steps may be nested {settings.WAYSTATION_GATHER_DEPTH} deep: "
            f"{' > '.join(inside)}.",
        )
    if (
        not isinstance(steps, list)
        or not steps
        or len(steps) > MAX_STEPS
        or not all(isinstance(step, dict) for step in steps)
    ):
        raise refused("steps", f"A template has between 1 and {MAX_STEPS} steps, each an object.")
    kinds.learn(steps)
    frozen: list[FrozenStep] = []
    for position, step in enumerate(steps):
        taken = {other["name"] for other in frozen}
        frozen.append(_freeze_step(step, position, taken=taken, inside=inside, kinds=kinds))
    return frozen


def _check_targets(steps: Sequence[FrozenStep]) -> None:
    """Raise TemplateInvalid where the code of a step names another step with a misspelt name, or
    asks by a keyword of before: it could only fail. A name that is like none of this template's
    may be meant for another template that uses the same code.
    """
    known = {step["name"] for step in steps}
    for position, step in enumerate(steps):
        try:
            function = find(step["function"], step.get("function_version", 1))
        except UnknownStep:
            continue
        if old := renamed(function):
            raise refused(f"steps.{position}.step_template_slug", old[0])
        for target in targets(function):
            if target.step not in known and refusals.close(target.step, known):
                raise refused(
                    f"steps.{position}.step_template_slug",
                    f"Its code leads to the step {refusals.in_json(target.step)} ({target.place}). "
                    f"{refusals.unknown('step', target.step, known)}",
                )


def _check_approvals_wanted(steps: Sequence[FrozenStep]) -> None:
    """Raise TemplateInvalid where the code of a step requires the approval of a step that is not
    there, or that never asks in this template: it could only fail.
    """
    known = {step["name"] for step in steps} | {step["function"] for step in steps}
    asking = {
        name
        for step in steps
        if step["pause_after"] or step.get("may_pass") or registry.asks_by_itself(step["function"])
        for name in (step["name"], step["function"])
    }
    for position, step in enumerate(steps):
        for wanted in approvals_wanted(step):
            place = f"steps.{position}.step_template_slug"
            says = f"Its code requires the approval of {refusals.in_json(wanted.step)}"
            if wanted.step not in known and not (
                wanted.optional and registry.is_known(wanted.step)
            ):
                there = refusals.unknown("step", wanted.step, known)
                raise refused(place, f"{says} ({wanted.place}). {there}")
            if wanted.step in known - asking and not wanted.optional:
                raise refused(
                    place,
                    f"{says} ({wanted.place}), which never asks in this template. Let the template "
                    "pause after it, say `asks=True` at a step that asks by itself, or require the "
                    "approval with `optional=True`.",
                )


def approvals_wanted(step: FrozenStep) -> Sequence[ApprovalWanted]:
    """List the approvals that the code of a step requires by name; none if the code is missing."""
    try:
        function = find(step["function"], step.get("function_version", 1))
    except UnknownStep:
        return ()
    return required_approvals(function)


def _phase(said: object, name: str, *, asks: bool) -> str:
    """What the work waits for after a step: as the template says, else as `use` names it."""
    return str(said or (f"awaiting_{name}_approval" if asks else ""))[:64]


def _freeze_step(
    step: Mapping[str, Any],
    position: int,
    *,
    taken: set[str],
    inside: tuple[str, ...],
    kinds: Kinds,
) -> FrozenStep:
    if misspelt := [name for name in step if name not in STEP_KEYS]:
        raise TemplateInvalid(
            {
                f"steps.{position}.{name}": [refusals.unknown("key", str(name), STEP_KEYS)]
                for name in misspelt
            }
        )
    step_type = str(step.get("step_type") or "")
    slug = str(step.get("step_template_slug") or "")
    kind = kinds.of(step)
    if kind is None and not slug and step_type:
        raise refused(f"steps.{position}.step_type", _missing_usual_text(step_type))
    if kind is None:
        known = StepTemplate.objects.order_by("slug").values_list("slug", flat=True).distinct()
        raise refused(
            f"steps.{position}.step_template_slug", refusals.unknown("step template", slug, known)
        )
    name = str(step.get("name") or step_type or slug)
    if name in taken or not name or len(name) > 100:
        raise refused(
            f"steps.{position}.name",
            f"Each step needs a name of its own; {refusals.in_json(name)} is taken, empty or "
            "too long.",
        )
    rounds = step.get("max_revisions", 3)
    if type(rounds) is not int or not 0 <= rounds <= 10:
        raise refused(f"steps.{position}.max_revisions", "Between 0 and 10 rounds.")
    pause_after = step.get("pause_after", False)
    if type(pause_after) is not bool:
        raise refused(f"steps.{position}.pause_after", "true or false.")
    frozen: FrozenStep = {
        "name": name,
        "step_type": step_type,
        "title": kind.title,
        "step_template_slug": kind.slug,
        "step_template_version": kind.version,
        "function": kind.function,
        "fingerprint": fingerprint_of(kind.function),
        "config": registry.traits_of(kind.function).server.completed(kind.config, setting),
        "pause_after": pause_after,
        "pause_phase": _phase(step.get("pause_phase"), name, asks=pause_after),
        "revise_to": str(step.get("revise_to") or name),
        "choices": _choices(step.get("choices", []), position),
        "max_revisions": rounds,
    }
    if (version := registry.latest_version(kind.function)) > 1:
        frozen["function_version"] = version  # never 1, so that older digests stay
    with refusing(f"steps.{position}."):
        # it gives only keys that a FrozenStep may have
        frozen.update(step_options.freeze(step))  # type: ignore[typeddict-item]
    if policy := registry.traits_of(kind.function).on_change:
        frozen.setdefault("on_change", policy)
    check_no_secrets(frozen.get("required_inputs", {}), f"steps.{position}.required_inputs")
    if kind.slug in inside:
        raise refused(
            f"steps.{position}.step_template_slug",
            f"{refusals.in_json(kind.slug)} would be a sub-step of itself.",
        )
    if kind.sub_steps:
        frozen["sub_steps"] = freeze_steps(kind.sub_steps, inside=(*inside, kind.slug), kinds=kinds)
    return frozen


def _missing_usual_text(step_type: str) -> str:
    known = (
        StepTemplate.objects.filter(slug__startswith="standard-")
        .values_list("slug", flat=True)
        .distinct()
    )
    message = refusals.unknown(
        "usual step template of the type",
        step_type,
        [slug.removeprefix("standard-") for slug in known],
    )
    return f"{message} A step of another type names its step_template_slug."


def fingerprint_of(name: str) -> str:
    """Give the fingerprint of the step function of that name; "" where the code has no such step
    any more: the run says so when it reaches the step.
    """
    try:
        return fingerprint(find(name))
    except UnknownStep:
        return ""


def _choices(choices: Any, position: int) -> list[Choice]:
    known = isinstance(choices, list) and all(
        isinstance(choice, dict)
        and choice.keys() - {"approves"} == CHOICE_KEYS
        and isinstance(choice.get("approves", False), bool)
        for choice in choices
    )
    if not known or any(not 0 < len(str(choice["name"])) <= 64 for choice in choices):
        raise refused(
            f"steps.{position}.choices",
            "A list of objects with name (up to 64 characters), label and to, and `approves` "
            "(true) where that answer is an approval.",
        )
    return [_choice(choice) for choice in choices]


def _choice(given: Mapping[str, Any]) -> Choice:
    choice: Choice = {
        "name": str(given["name"]),
        "label": str(given["label"]),
        "to": str(given["to"]),
    }
    if given.get("approves"):
        choice["approves"] = True  # never False, so that older digests stay
    return choice


def _check_answers(steps: Sequence[FrozenStep]) -> None:
    names = {step["name"] for step in steps}
    for position, step in enumerate(steps):
        place = f"steps.{position}"
        for field, name, to in [
            ("revise_to", "revise", step["revise_to"]),
            *(
                (f"choices.{number}.to", choice["name"], choice["to"])
                for number, choice in enumerate(step["choices"])
            ),
        ]:
            if to not in names:
                raise refused(
                    f"{place}.{field}",
                    f"The answer {refusals.in_json(name)} leads to {refusals.in_json(to)}, which "
                    "is no step of this template.",
                )
        if (to := step.get("on_failure", "")) and (to not in names or to == step["name"]):
            itself = "A step that failed does not lead to itself; `retry` tries it again."
            words = itself if to in names else refusals.unknown("step", to, names)
            raise refused(f"{place}.on_failure", words)
        if RESERVED & {choice["name"] for choice in step["choices"]}:
            raise refused(f"{place}.choices", "approve, revise and cancel are answers already.")
