import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from checkpoints.checks import OURS
from runs.definitions import yaml_files
from runs.definitions.errors import TemplateInvalid, TemplateNotFound


class Command(BaseCommand):
    help = "Write templates as YAML, and take them in again: for templates that live in git."
    requires_system_checks = OURS

    def add_arguments(self, parser: CommandParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True)
        export = commands.add_parser("export", help="print templates as YAML")
        export.add_argument("slugs", nargs="*", help="of templates; all where none is named")
        apply = commands.add_parser("apply", help="save what a file says, all of it or nothing")
        apply.add_argument("file", help="a YAML file; - for standard input")
        apply.add_argument(
            "--check", action="store_true", help="save nothing; exit with 1 where it would"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            if options["command"] == "export":
                self.stdout.write(yaml_files.export(options["slugs"]), ending="")
            else:
                self._apply(options["file"], check=options["check"])
        except TemplateNotFound as error:
            raise CommandError(str(error)) from error
        except TemplateInvalid as error:
            lines = [f"{place}: {' '.join(texts)}" for place, texts in error.errors.items()]
            raise CommandError("\n".join(["Nothing was saved.", *lines])) from error
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"The file cannot be read: {error}") from error

    def _apply(self, file: str, *, check: bool) -> None:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        with transaction.atomic():
            applied = yaml_files.apply(text)
            transaction.set_rollback(check)
        for one in applied:
            kind = "step template" if one.is_step else "template"
            self.stdout.write(f"{kind} {one.slug}: {one.state}, version {one.version}")
        if check and any(one.state != "same" for one in applied):
            raise CommandError("Nothing was saved; without --check these would be.", returncode=1)
