from __future__ import annotations

import datetime as dt
from typing import Any

from django.core.management.base import CommandError, CommandParser

from checkpoints.checks import OURS
from checkpoints.database import clock
from checkpoints.database.people import active
from checkpoints.management.shown import PlainCommand
from hitl.models import ApiToken

MAX_DAYS = 36_500
DAYS = 90
"""As the page suggests."""


class Command(PlainCommand):
    help = (
        "Make an API token for a user and print it once, as the last word of the output. Only "
        "its digest is kept."
    )
    requires_system_checks = OURS

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="the name to log in with")
        parser.add_argument("--name", default="command line")
        parser.add_argument("--scope", choices=ApiToken.Scope.values, default=ApiToken.Scope.WRITE)
        end = parser.add_mutually_exclusive_group()
        end.add_argument(
            "--days",
            type=int,
            default=DAYS,
            help=f"valid for so many days, {DAYS} unless said; 0 as --never",
        )
        end.add_argument("--never", action="store_true", help="valid without end")

    def handle(self, *args: Any, **options: Any) -> None:
        user = active(options["user"])
        if user is None:
            raise CommandError(f"There is no active user {options['user']!r}; no token was made.")
        if not 0 <= options["days"] <= MAX_DAYS:
            raise CommandError(f"--days is a number from 0 to {MAX_DAYS}.")
        if len(options["name"]) > 80:
            raise CommandError("--name has up to 80 characters.")
        days = 0 if options["never"] else options["days"]
        expires_at = clock.now() + dt.timedelta(days=days) if days else None
        _, secret = ApiToken.make(
            user, name=options["name"], scope=options["scope"], expires_at=expires_at
        )
        self.stdout.write(f"Token of {user.get_username()}, shown only now: {secret}")
