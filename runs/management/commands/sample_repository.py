from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from checkpoints.checks import OURS
from checkpoints.management.shown import PlainCommand
from runs.git.samples import FolderInUse, make_sample


class Command(PlainCommand):
    help = (
        "Make a real git repository in DIR to try a work order on. Offline; does nothing if it "
        "is there already."
    )
    requires_system_checks = OURS

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("directory", metavar="DIR", type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            made = make_sample(options["directory"])
        except FolderInUse as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(f"The sample cannot be made: {error}") from error
        self.stdout.write(str(made))
