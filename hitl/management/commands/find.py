from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from checkpoints.checks import OURS
from checkpoints.database.people import active
from checkpoints.management.shown import PlainCommand
from hitl.find import shell


class Command(PlainCommand):
    help = (
        "Search a list as a user sees it, by the words of its page's address: "
        "find --user ana orders status=failed since=7d."
    )
    requires_system_checks = OURS

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--user", required=True, help="act as this user")
        parser.add_argument("--limit", type=int, default=20, help=f"lines, to {shell.MOST} (20)")
        parser.add_argument("list", choices=list(shell.SHOWN))
        parser.add_argument("words", nargs="*", metavar="NAME=VALUE")

    def handle(self, *args: Any, **options: Any) -> None:
        user = active(options["user"])
        if user is None:
            raise CommandError(f"There is no active user {options['user']!r}.")
        found = shell.lines(options["list"], options["words"], by=user, limit=options["limit"])
        for line in found or ["Nothing fits." if options["words"] else "Nothing is there."]:
            self.stdout.write(line)
