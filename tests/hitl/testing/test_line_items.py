"""Line items that continue separately: a child run for each, which asks and goes on by itself."""

from __future__ import annotations

from hitl.testing import play
from runs.workflows import Child, Done, Gather, Go, Report, Review, step, use, workflow

LINES = {"lines": [{"no": "a", "sum": 10}, {"no": "b", "sum": 20}, {"no": "c", "sum": 30}]}


@step("invoice.split")
def split(state, context):
    """One child for each line, with the line as its own."""
    lines = context.order.input["lines"]
    return Gather(
        children=[Child(name=f"line-{line['no']}", update={"line": line}) for line in lines],
        into="lines",
        on_failure="collect",
    )


@step("invoice.check")
def check(state, context):
    line = state["line"]
    return Go(report=Report(content=f"Line {line['no']}: {line['sum']}", material=line))


@step("invoice.post")
def post(state, context):
    context.require_approval("invoice.check", state["line"])
    posted = context.once("post", lambda: state["line"]["sum"])
    return Done(update={"posted": posted})


@step("invoice.total")
def total(state, context):
    posted = [line.get("posted", 0) for line in state["lines"].values()]
    return Done(update={"total": sum(posted)})


invoice = workflow(
    "invoice",
    title="Invoice",
    steps=[
        use(
            split,
            config={"parallel": True},
            sub_steps=[use(check, pause_after=True, review=Review(quorum=1)), post],
        ),
        total,
    ],
)


def test_each_line_is_asked_about_and_goes_on_by_itself():
    run = play(invoice, input=LINES)
    assert [question.child for question in run.questions] == ["line-a", "line-b", "line-c"]
    run.approve(at="line-b")
    assert [effect.child for effect in run.recorded] == ["line-b"], "posted, and nobody waited"
    assert [question.child for question in run.questions] == ["line-a", "line-c"]
    run.revise("Look again", at="line-a")
    run.cancel("not ours", at="line-c")
    assert [(one.child, one.revision) for one in run.questions] == [("line-a", 2)]
    run.approve(at="line-a")
    assert run.done
    assert run.state["total"] == 30, "the line that was refused is left out"
    assert run.state["gathered"]["line-c"]["status"] == "cancelled"
