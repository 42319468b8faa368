from typing import Any

from django.core.management.base import CommandError, CommandParser

from checkpoints.checks import OURS
from checkpoints.management.shown import PlainCommand
from checkpoints.store import StoreUnavailable, orphans


class Command(PlainCommand):
    help = (
        "Drop bodies of states, in a store beside the database, that no checkpoint refers to: a "
        "crash or a rollback leaves some."
    )
    requires_system_checks = OURS

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--older-than",
            type=float,
            default=3600,
            metavar="SECONDS",
            help="leave younger ones (3600)",
        )
        parser.add_argument("--dry-run", action="store_true", help="only count them")

    def handle(self, *args: Any, **options: Any) -> None:
        if not 0 <= options["older_than"] < float("inf"):
            raise CommandError("--older-than is a number of seconds from 0.")
        try:
            number = orphans.drop(older_than=options["older_than"], dry_run=options["dry_run"])
        except StoreUnavailable as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"{number} stray bodies{', none dropped' if options['dry_run'] else ' dropped'}."
        )
