from typing import Any

from django.core.management.base import CommandParser
from django.db import transaction

from checkpoints.checks import OURS
from checkpoints.management.shown import PlainCommand
from runs.definitions import loading, shipped


class Command(PlainCommand):
    help = "Write the templates that come with Waystation and with your workflows. Safe to repeat."
    requires_system_checks = OURS

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--replace",
            action="append",
            default=[],
            metavar="SLUG",
            help="make the code's version of this workflow current, where a person changed it",
        )

        parser.add_argument(
            "--check", action="store_true", help="only tell whether all could be saved"
        )

    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> None:
        templates = shipped.load(options["replace"])
        for template in templates:
            self.stdout.write(str(template))
        for slug, place in shipped.outdated(templates).items():
            self.stdout.write(
                f"{slug}: a person's version stands, and {place} declares a newer one. "
                f"--replace {slug} makes that current."
            )
        for words in loading.left_out():
            self.stdout.write(f"Not loaded: {words}")
        if not templates:
            self.stdout.write(
                "There is none. WAYSTATION_WORKFLOWS names workflows; extensions bring some along."
            )
        transaction.set_rollback(options["check"])
