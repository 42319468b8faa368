from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from checkpoints import clock
from hitl import anchors
from hitl.models import Anchor


class Command(BaseCommand):
    help = "Write today's anchors, as the worker does once a day, and print those that are new; --all prints all. Keep the lines elsewhere."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--all", action="store_true", help="every anchor of every ledger, by day")

    def handle(self, *args: Any, **options: Any) -> None:
        made = anchors.drop_due(now=clock.now())
        for anchor in Anchor.objects.order_by("day", "ledger").iterator() if options["all"] else made:
            self.stdout.write(str(anchor))
