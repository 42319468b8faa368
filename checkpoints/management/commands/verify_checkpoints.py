import json
import sys
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError, CommandParser

from checkpoints import ids
from checkpoints.checks import OURS
from checkpoints.export.verification import CheckpointCheck
from checkpoints.management.shown import PlainCommand
from checkpoints.models import Thread


class Command(PlainCommand):
    help = (
        "Compute the digests of all checkpoints, blobs and chunks again, and name what was "
        "changed. Reads only; exits with 1 on damage."
    )
    requires_system_checks = OURS

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--thread", help="only this thread (thr_…), and the blobs it refers to")
        parser.add_argument(
            "--json", action="store_true", help="one JSON document instead of lines"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        check = CheckpointCheck(self._thread(options["thread"]))
        damages = []
        for damage in check.damaged():
            damages.append(damage)
            if not options["json"]:
                self.stdout.write(f"{damage.kind} {damage.id}: {damage.words}")
        looked_at = {kind: check.looked_at[kind] for kind in ("checkpoints", "chunks", "blobs")}
        if options["json"]:
            self.stdout.write(
                json.dumps(
                    {
                        "ok": not damages,
                        "checked": looked_at,
                        "damaged": [asdict(damage) for damage in damages],
                    },
                    indent=2,
                )
            )
        else:
            summary = ", ".join(f"{count} {kind}" for kind, count in looked_at.items())
            self.stdout.write(
                f"Checked {summary}: "
                f"{f'{len(damages)} damaged.' if damages else 'all as they were written.'}"
            )
        if damages:
            sys.exit(1)

    def _thread(self, shown: str | None) -> Any:
        if shown is None:
            return None
        try:
            key = ids.parse(Thread.PREFIX, shown)
        except ValueError as error:
            raise CommandError(str(error)) from error
        if not Thread.objects.filter(pk=key).exists():
            raise CommandError(f"There is no thread {shown}.")
        return key
