"""Steps whose code requires approvals by name: pytest hides the source of its own test modules."""

from __future__ import annotations

from runs.workflows import Context, Done, Go, Outcome, State, step


@step("wanted.first")
def first(state: State, context: Context) -> Outcome:
    return Go()


@step("wanted.literal")
def literal(state: State, context: Context) -> Outcome:
    context.require_approval("yes.draaft")
    return Done()


@step("wanted.by_function")
def by_function(state: State, context: Context) -> Outcome:
    _require(context)
    return Done()


def _require(context: Context) -> None:
    context.require_approval(first, {"amount": 100})


@step("wanted.optional")
def optional(state: State, context: Context) -> Outcome:
    context.require_approval("wanted.first", optional=True)
    return Done()
