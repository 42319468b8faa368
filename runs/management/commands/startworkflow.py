import keyword
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from checkpoints.management.shown import PlainCommand
from checkpoints.text import extras

WORKFLOW = '''\
"""{title}: a workflow, its input, and its steps. `make up` loads each change of it."""

from pydantic import BaseModel, Field

from runs.workflows import Context, Done, Go, Outcome, Report, State, read, step, use, workflow


class {Input}(BaseModel):
    """What an order brings. It is the form on the page and the check over REST."""

    about: str = Field(description="What it is about.")


@step("{name}.prepare")
def prepare(state: State, context: Context) -> Outcome:
    """Make what a person looks at. After Revise this runs again, with their words in the state."""
    asked = read({Input}, context.order.input)
    text = f"About {{asked.about}}. {{state['revision_feedback']}}".strip()
    return Go(update={{"text": text}}, report=Report(content=text, material={{"text": text}}))


@step("{name}.finish")
def finish(state: State, context: Context) -> Outcome:
    """Do just what was approved, and do it once, whatever crashes."""
    context.require_approval("{name}.prepare", {{"text": state["text"]}})
    done = context.once("finish", lambda: publish(state["text"]))
    return Done(update={{"done": done}})


def publish(text: str) -> str:
    """What reaches outside. Its result is recorded and never computed again."""
    return f"published: {{text}}"


{name} = workflow(
    "{slug}",
    title="{title}",
    input={Input},
    steps=[use(prepare, pause_after=True), finish],
)
'''
TEST = '''\
"""Runs without a server."""

import {name}
from hitl.testing import play, survives_every_crash

INPUT = {{"about": "the summer"}}


def test_what_was_approved_is_done() -> None:
    run = play({name}, input=INPUT)
    assert "summer" in run.question.content
    run.revise("Shorter, please.")
    run.approve()
    assert run.done
    assert run.state["done"] == "published: About the summer. Shorter, please."


def test_it_survives_every_crash() -> None:
    survives_every_crash(
        {name}, input=INPUT, answers=["approve"], idempotent=[{name}.publish]
    )
'''


class Command(PlainCommand):
    help = "Write a small workflow with its test, which runs at once, to begin from."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="of the module and its workflow, such as refunds")
        parser.add_argument("--folder", type=Path, default=Path("~/flows"), help="~/flows")

    def handle(self, *args: Any, **options: Any) -> None:
        name: str = options["name"].replace("-", "_")
        if not name.isidentifier() or name.startswith(("_", "test_")) or len(name) > 60:
            raise CommandError(
                f"{options['name']!r} cannot be a module's name. Use letters, digits and "
                "underscores, and begin with a letter."
            )
        if keyword.iskeyword(name) or find_spec(name) is not None:
            raise CommandError(f"Python has something called {name} already. Choose another name.")
        folder = options["folder"].expanduser().resolve()
        words = {
            "name": name,
            "slug": name.replace("_", "-"),
            "title": name.replace("_", " ").capitalize(),
            "Input": "".join(part.capitalize() for part in name.split("_")) + "Input",
        }
        files = {folder / f"{name}.py": WORKFLOW, folder / f"test_{name}.py": TEST}
        if there := [str(path) for path in files if path.exists()]:
            raise CommandError(
                f"{there[0]} is there already, so nothing was written. Choose another name."
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for path, text in files.items():
                path.write_text(text.format(**words))
        except OSError as error:
            raise CommandError(f"{error.filename} cannot be written: {error.strerror}.") from error
        for path in files:
            self.stdout.write(f"Wrote  {path}")
        if extras.BUILT.exists():
            self.stdout.write(f"Try    waystation-server up --workflows {folder}")
            self.stdout.write(f"Test   python -m pytest {folder}")
            return
        self.stdout.write(f"Try    make up WORKFLOWS={folder}")
        self.stdout.write(f"Test   PYTHONPATH={folder} .venv/bin/python -m pytest {folder}")
