"""The steps of the game: what is approved, what is done for it, calls of tools, data and people
outside.
"""

from __future__ import annotations

from runs.workflows.base import Ask, Context, Done, Go, Outcome, Outside, Report, State, StepFailed
from runs.workflows.registry import step
from runs.workflows.tool_calls import Call, approved
from runs.workflows.wait_for_input import ask_about_calls, wait_for_input
from tests.adversary.played.book import (
    ACCOMPLICE,
    acted_on,
    arguments_of,
    drafted,
    given,
    text_of,
    write_down,
)

VAT = {"type": "object", "properties": {"vat": {"type": "string"}}, "required": ["vat"]}


@step("adversary.plan")
def plan(state: State, context: Context) -> Outcome:
    """What is to be approved. The reviewers read the text, and the text is what counts."""
    _, update, report = drafted(state, context)
    return Go(update=update, report=report)


@step("adversary.consult")
def consult(state: State, context: Context) -> Outcome:
    """The same, and people outside are asked too: at the template's address, or at one that came
    with the order.
    """
    known = given(state, context)
    text = text_of(known)
    to = (
        [context.config["to"]]
        if context.config.get("to")
        else [str(known.get("contact") or ACCOMPLICE)]
    )
    return Ask(
        question="May this be paid?",
        answers={"approve": str(context.config["then"]), "revise": context.step},
        report=Report(content=text, material=text),
        update={name: known[name] for name in ("amount", "to") if name in known},
        outside=Outside(to=to, question="May this be paid?", content=text, answers=["approve"]),
    )


@step("adversary.ask")
def ask(state: State, context: Context) -> Outcome:
    """A question for data, whose schema leaves room for more."""
    return (
        wait_for_input(
            state,
            context,
            required_inputs=VAT,
            blocking_reason="missing_vat",
            question="Which VAT number?",
        )
        or Go()
    )


@step("adversary.act")
def act(state: State, context: Context) -> Outcome:
    """An effect that relies on its place behind the review alone."""
    write_down("plain", context, acted_on(given(state, context), "plan"))
    return Go()


@step("adversary.pay")
def pay(state: State, context: Context) -> Outcome:
    """An effect that demands the approval of what it acts on; at least where the template asks."""
    of, optional = str(context.config.get("of", "plan")), bool(context.config.get("optional"))
    text = acted_on(given(state, context), of)
    context.require_approval(of, text, optional=optional)
    write_down("optional" if optional else "demanding", context, text, of=of)
    if state.get("fails"):
        raise StepFailed("The bank is closed.", code="bank_closed")
    return Go(update={"paid": [*state.get("paid", []), text]})


@step("adversary.call")
def call(state: State, context: Context) -> Outcome:
    """Tool calls that people decide one by one."""
    wanted = [
        Call(
            id="transfer",
            tool="transfer",
            arguments={"amount": state.get("amount", 0), "to": str(state.get("to"))},
            editable=["/amount"],
        ),
        Call(id="drop", tool="drop", arguments={"name": "orders"}, risk="high"),
    ]
    if asked := ask_about_calls(state, context, calls=wanted):
        return asked
    for one in approved(context, context.step, wanted):
        write_down("call", context, arguments_of(one.arguments), call=f"{one.id}/{one.tool}")
    return Go()


@step("adversary.end")
def end(state: State, context: Context) -> Outcome:
    return Done(update={"ended": True})
