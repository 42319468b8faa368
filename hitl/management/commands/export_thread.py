import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from checkpoints import ids
from checkpoints.checks import OURS
from checkpoints.export.schema import document_schema
from checkpoints.models import Thread
from checkpoints.state import codec
from checkpoints.store import CheckpointDamaged
from hitl.decisions.services import NotFound
from hitl.threads import export


class Command(BaseCommand):
    help = (
        "Write a thread as one JSON document, in plain: checkpoints, events, runs, questions, "
        "decisions and blobs."
    )
    requires_system_checks = OURS

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("thread", nargs="?", default="", help="thr_…")
        parser.add_argument(
            "--output",
            default="-",
            help="a file, which must not be there yet; - for the standard output",
        )
        parser.add_argument(
            "--schema",
            action="store_true",
            help="print the document's JSON Schema and do nothing else",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["schema"]:
            self.stdout.write(json.dumps(document_schema(), indent=2))
            return
        try:
            text = codec.encode_in_order(export.export(ids.parse(Thread.PREFIX, options["thread"])))
        except (ValueError, NotFound, CheckpointDamaged) as error:
            raise CommandError(str(error)) from error
        if options["output"] == "-":
            self.stdout.write(text)
            return
        try:
            with Path(options["output"]).open("x") as file:
                file.write(text)
        except OSError as error:
            raise CommandError(
                f"{options['output']}: {error.strerror}; nothing was written."
            ) from error
        # the standard output may be a document
        self.stderr.write(f"{len(text)} bytes in {options['output']}")
