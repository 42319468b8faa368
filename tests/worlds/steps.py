"""Small steps for tests of the engine: no repository, no subprocess, nothing to wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runs import definitions
from runs.workflows import registry
from runs.workflows.base import Context, Done, Go, Outcome, Report, State, StepFailed
from runs.workflows.registry import step

if TYPE_CHECKING:
    import pytest

CALLS: list[tuple[str, str]] = []
"""(step, key) of each call in this process: what really ran, and how often."""
HOOKS: dict[str, object] = {}
"""step → a function called while the step works, for tests that need something to happen just
then.
"""


def called(context: Context) -> None:
    CALLS.append((context.step, context.key))
    hook = HOOKS.get(context.step)
    if callable(hook):
        hook()


@step("test.plan")
def plan(state: State, context: Context) -> Outcome:
    called(context)
    drafts = [*state.get("drafts", []), state["revision_feedback"] or "first"]
    return Go(
        update={"drafts": drafts},
        report=Report(
            content=f"# Plan {len(drafts)}\n\n{drafts[-1]}", facts={"Drafts": len(drafts)}
        ),
    )


@step("test.work")
def work(state: State, context: Context) -> Outcome:
    called(context)
    return Go(
        update={"worked": state.get("worked", 0) + 1},
        report=Report(content="Worked.", patch="diff --git a/x b/x\n@@ -1 +1 @@\n-a\n+b\n"),
    )


@step("test.check")
def check(state: State, context: Context) -> Outcome:
    called(context)
    return Go(update={"checked": True}, report=Report(content="Checked."))


@step("test.finish")
def finish(state: State, context: Context) -> Outcome:
    called(context)
    return Done(update={"finished": True, "git_commit_count": 2})


@step("test.fail")
def fail(state: State, context: Context) -> Outcome:
    called(context)
    raise StepFailed("The shop is closed. Try again in the morning.", code="shop_closed")


@step("test.crash")
def crash(state: State, context: Context) -> Outcome:
    called(context)
    raise ValueError("surprise")


@step("test.unserialisable")
def unserialisable(state: State, context: Context) -> Outcome:
    called(context)
    return Go(update={"handle": {"socket": object()}})


def deploy(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """New code: `test.<name>` is another function, or none."""
    for name, function in changes.items():
        if function is None:
            monkeypatch.delitem(registry._STEPS, f"test.{name}")
        else:
            monkeypatch.setitem(registry._STEPS, f"test.{name}", function)


def forget() -> None:
    """Before a test: what ran, and what is to happen meanwhile."""
    CALLS.clear()
    HOOKS.clear()


def on_code() -> str:
    """Make a template that works on a repository; its slug."""
    rules = {"type": "object", "properties": {"rules": {"type": "string"}}}
    steps = definitions.current("writing").steps
    return definitions.edit_template(
        "on-code", steps=steps, title="On code", input_schema=rules
    ).slug


def load() -> None:
    """The templates of the tests."""
    forget()
    for name in ("plan", "work", "check", "finish", "fail", "crash", "unserialisable"):
        definitions.edit_step_template(
            f"test-{name}", title=name.capitalize(), function=f"test.{name}", config={}
        )
    pausing = [
        {
            "step_type": "planning",
            "step_template_slug": "test-plan",
            "pause_after": True,
            "pause_phase": "awaiting_plan_approval",
        },
        {
            "step_type": "execute",
            "step_template_slug": "test-work",
            "pause_after": True,
            "pause_phase": "awaiting_implementation_review",
            "choices": [
                {"name": "skip_review", "label": "Approve and skip review", "to": "finish"}
            ],
        },
        {
            "step_type": "review",
            "step_template_slug": "test-check",
            "pause_after": True,
            "pause_phase": "awaiting_review_decision",
            "revise_to": "execute",
        },
        {
            "step_type": "deliver",
            "name": "finish",
            "step_template_slug": "test-finish",
            "pause_after": False,
        },
    ]
    straight = [{**step, "pause_after": False, "choices": []} for step in pausing]
    definitions.edit_template("writing", steps=pausing, title="Writing", needs_repository=False)
    definitions.edit_template(
        "writing-quick", steps=straight, title="Writing at once", needs_repository=False
    )
    for name in ("fail", "crash", "unserialisable"):
        steps = [straight[0], {"step_type": "execute", "step_template_slug": f"test-{name}"}]
        definitions.edit_template(
            f"writing-{name}", steps=steps, title=f"Writing, {name}", needs_repository=False
        )
