"""An order that asks, is approved, and ends, for programs that try an installation."""

from __future__ import annotations

from pathlib import Path


def take_to_its_end() -> None:
    """On a copy of the tables of Django's settings, which are of SQLite."""
    from django.conf import settings
    from django.db import connections

    from hitl.testing import Engine, play
    from hitl.testing.databases import Sqlite
    from runs.workflows import Context, Done, Go, Outcome, Report, State, step, use, workflow

    @step("installed.draft")
    def draft(state: State, context: Context) -> Outcome:
        return Go(update={"text": "words"}, report=Report(content="words"))

    @step("installed.finish")
    def finish(state: State, context: Context) -> Outcome:
        return Done(update={"done": state["text"]})

    made = workflow("installed", title="Installed", steps=[use(draft, pause_after=True), finish])
    connections.close_all()  # else what was written last stands in the file beside it
    tables = Sqlite(None, of=Path(settings.DATABASES["default"]["NAME"]))
    run = play(made, engine=Engine(tables))
    assert run.question.content == "words"
    run.approve()
    assert run.done and run.state["done"] == "words"
