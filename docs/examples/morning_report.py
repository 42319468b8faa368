"""A report on each working day at 7: somebody releases it until noon, else it is not sent.

`figures_of` stands for your own numbers: here a file holds them, a line for each.
"""

from __future__ import annotations

from pathlib import Path

from runs.workflows import (
    Context,
    Done,
    Go,
    Outcome,
    Report,
    Review,
    State,
    StepFailed,
    limit,
    schedule,
    step,
    use,
    workflow,
)

FOLDER = Path(__file__).parent / "data"
"""Has `figures.txt`; what is sent is written to `reports/`."""
BERLIN = "Europe/Berlin"


def figures_of() -> str:
    """The numbers of the day. Raises StepFailed where there are none yet."""
    try:
        return (FOLDER / "figures.txt").read_text()
    except FileNotFoundError as error:
        raise StepFailed("There are no figures yet.", code="no_figures", after=600) from error


def send(order: str, text: str) -> str:
    """Send a report; the same order's is sent once."""
    (FOLDER / "reports").mkdir(parents=True, exist_ok=True)
    (FOLDER / "reports" / f"{order}.md").write_text(text)
    return f"{order}.md"


@step("report.collect")
def collect(state: State, context: Context) -> Outcome:
    """Take the numbers as they are now."""
    figures = context.once("figures", figures_of)
    text = f"# This morning\n\n{figures}"
    if state["revision_feedback"]:
        text += f"\n\n{state['revision_feedback']}"
    return Go(update={"text": text}, report=Report(content=text, material=text))


@step("report.send")
def send_it(state: State, context: Context) -> Outcome:
    """Send just what was released."""
    context.require_approval("report.collect", state["text"])
    return Done(
        update={"sent": context.once("send", lambda: send(context.order.id, state["text"]))}
    )


@step("report.missed")
def missed(state: State, context: Context) -> Outcome:
    """Nobody released it in time: say so where the report would have been."""
    context.once("missed", lambda: send(context.order.id, "There is no report today."))
    return Done()


morning_report = workflow(
    "morning-report",
    title="Morning report",
    schedules=[schedule("0 7 * * 1-5", tz=BERLIN, until="12:00", skip_if_open=True)],
    limits=[limit(at_once=1)],
    on_expire=missed,
    steps=[
        use(
            collect,
            pause_after=True,
            question="Send this report?",
            retry={"attempts": 5, "errors": ["no_figures"]},
            review=Review(
                reviewers={"groups": ["editors"]},
                deadline={"after": "until 12:00", "zone": BERLIN, "outcome": "expire"},
                reminders=["PT2H"],
            ),
        ),
        use(send_it, name="send"),
    ],
)
