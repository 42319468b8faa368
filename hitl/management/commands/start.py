from typing import Any

from django.core.management.base import CommandError, CommandParser

from checkpoints.database import older_database
from checkpoints.management.shown import PlainCommand
from hitl.operations import starting

PREPARE, STATIC = "prepare", "static"
NAMES = {"worker": "steps"}
"""What a worker is called among Celery's, where nothing else is said."""


class Command(PlainCommand):
    help = (
        "Wait for the database, migrate it where no other process does, collect static files, and "
        "become a process of the product. `prepare` ends before that, for a job before a deploy; "
        "`static` only collects static files, for an image."
    )
    requires_system_checks = ()  # some ask the database, which is waited for

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("role", choices=[*starting.PROCESSES, PREPARE, STATIC])
        parser.add_argument("--host", default="0.0.0.0")  # noqa: S104  # in front is a proxy
        parser.add_argument("--port", type=int, default=8000)
        parser.add_argument(
            "--concurrency", type=int, default=16, help="threads of a worker of steps"
        )
        parser.add_argument(
            "--name", default="", help="of a worker, where a host has several of a kind"
        )
        parser.add_argument(
            "--wait", type=float, default=120, help="seconds to wait for the database"
        )
        parser.add_argument(
            "--migrating",
            type=float,
            default=3600,
            help="seconds to wait while another process migrates",
        )
        parser.add_argument(
            "--no-migrate",
            action="store_true",
            help="leave the tables as they are: another job migrates",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        role = options["role"]
        if role != STATIC:
            self._tables(options)
        if role in ("web", PREPARE, STATIC):
            starting.collect_once(self._say)
        if role in starting.PROCESSES:
            self._say(f"Starting {role}.")
            told = {name: options[name] for name in ("host", "port", "concurrency")}
            starting.become(role, name=options["name"] or NAMES.get(role, role), **told)

    def _tables(self, options: dict[str, Any]) -> None:
        try:
            starting.wait_for_database(self._say, seconds=options["wait"])
            older_database.refuse()
            if not options["no_migrate"]:
                starting.migrate_once(self._say, seconds=options["migrating"])
        except starting.NotReady as error:
            raise CommandError(str(error)) from error

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
