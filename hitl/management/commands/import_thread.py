from pathlib import Path
from typing import Any

from django.contrib.auth.models import Group
from django.core.management.base import CommandError, CommandParser

from checkpoints.checks import OURS
from checkpoints.database.people import User, active
from checkpoints.export import thread_document
from checkpoints.management.shown import PlainCommand
from checkpoints.state.reducers import StateTooLarge
from hitl.threads import export as whole

LIMIT = 1_000_000_000


class Command(PlainCommand):
    help = (
        "Import a thread from a document of export_thread, under new ids; print its id as the "
        "last word."
    )
    requires_system_checks = OURS

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file")
        parser.add_argument(
            "--owner",
            required=True,
            help="the name to log in with of the person whose thread it becomes",
        )
        parser.add_argument(
            "--team", default="", help="a group of that person, whose members see it too"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        owner = active(options["owner"])
        if owner is None:
            raise CommandError(
                f"There is no active user {options['owner']!r}; nothing was imported."
            )
        team = owner.groups.filter(name=options["team"]).first() if options["team"] else None
        if options["team"] and team is None:
            raise CommandError(
                f"{options['owner']} is in no group {options['team']!r}; nothing was imported."
            )
        self.stdout.write(f"Imported as {self._load(options['file'], owner, team)}")

    def _load(self, name: str, owner: User, team: Group | None) -> str:
        try:
            document = thread_document.read(Path(name).read_bytes(), limit=LIMIT)
            return whole.load(document, owner=owner, team=team).thread.shown_id
        except OSError as error:
            raise CommandError(f"{name}: {error.strerror}; nothing was imported.") from error
        except (thread_document.ImportRefused, StateTooLarge) as error:
            raise CommandError(f"{error} [{error.code}]") from error
