from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

from django.contrib.auth.models import Group
from django.core.management.base import CommandError, CommandParser

from checkpoints.checks import OURS
from checkpoints.database import clock
from checkpoints.database.people import NAME, User, called
from checkpoints.management.shown import PlainCommand
from hitl.identity import service_accounts
from hitl.identity.service_accounts import AccountRefused
from hitl.models import ApiToken, ServiceAccount
from hitl.models.people.tokens import SERVICE_SCOPES


class Command(PlainCommand):
    help = (
        "Make and look after accounts without a person. A token's secret is printed once, as the "
        "last word of the output."
    )
    requires_system_checks = OURS

    def add_arguments(self, parser: CommandParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True)
        commands.add_parser("list", help="accounts, and the tokens of each")
        make = commands.add_parser("make", help="make an account; it has no token yet")
        make.add_argument("name", help="how logs, lists and decisions call it")
        make.add_argument("--purpose", required=True, help="what it is for")
        make.add_argument("--team", action="append", default=[], dest="teams")
        token = commands.add_parser("token", help="make a token")
        token.add_argument("name", help="of the account")
        token.add_argument("--label", default="command line", help="what will use it")
        token.add_argument("--scope", choices=SERVICE_SCOPES, default="ask")
        token.add_argument("--days", type=int, default=service_accounts.DAYS)
        rotate = commands.add_parser("rotate", help="make a token in place of another one")
        rotate.add_argument("name", help="of the account")
        rotate.add_argument("token", help="the id of the token, as `list` prints it")
        rotate.add_argument(
            "--overlap-hours", type=float, default=24, help="how long the old one stays valid"
        )
        for name, words in (("off", "refuse all its tokens"), ("on", "take them again")):
            commands.add_parser(name, help=words).add_argument("name", help="of the account")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['command']}")(options)
        except AccountRefused as error:
            raise CommandError(f"{error} Nothing was done.") from error

    def _list(self, options: dict[str, Any]) -> None:
        now = clock.now()
        accounts = ServiceAccount.objects.select_related("user", "made_by")
        for account in accounts.order_by(f"user__{NAME}"):
            off = "" if account.user.is_active else " (switched off)"
            by = account.made_by.get_username() if account.made_by else "the shell"
            self.stdout.write(f"{account}{off}: {account.purpose} · made by {by}")
            for token in ApiToken.objects.valid(now=now).filter(user=account.user).order_by("pk"):
                self.stdout.write(
                    f"  {token.pk} {token.name} · {token.scope} · valid until "
                    f"{token.expires_at:%Y-%m-%d %H:%M}"
                )

    def _make(self, options: dict[str, Any]) -> None:
        teams = [_team(name) for name in options["teams"]]
        account = service_accounts.make(options["name"], purpose=options["purpose"], teams=teams)
        self.stdout.write(f"Made {account}. It needs a token: service_account token {account}")

    def _token(self, options: dict[str, Any]) -> None:
        made, secret = service_accounts.issue(
            _account(options["name"]),
            name=options["label"],
            scope=options["scope"],
            days=options["days"],
        )
        self.stdout.write(f"Token {made.pk} of {options['name']}, shown only now: {secret}")

    def _rotate(self, options: dict[str, Any]) -> None:
        overlap = dt.timedelta(hours=options["overlap_hours"])
        tokens = ApiToken.objects.select_related("user__service_account").filter(
            user=_account(options["name"]).user
        )
        try:
            token = tokens.get(pk=uuid.UUID(options["token"]))
        except (ApiToken.DoesNotExist, ValueError) as error:
            raise CommandError("It has no such token. Nothing was done.") from error
        made, secret = service_accounts.rotate(token, overlap=overlap)
        self.stdout.write(f"Token {made.pk} of {options['name']}, shown only now: {secret}")

    def _off(self, options: dict[str, Any]) -> None:
        self._switch(options["name"], on=False)

    def _on(self, options: dict[str, Any]) -> None:
        self._switch(options["name"], on=True)

    def _switch(self, name: str, *, on: bool) -> None:
        service_accounts.switch(_account(name), on=on)
        self.stdout.write(f"{name} is switched {'on' if on else 'off'}.")


def _account(name: str) -> ServiceAccount:
    found = ServiceAccount.objects.select_related("user__service_account")
    account = found.filter(user__in=User.objects.filter(called(name))).first()
    if account is None:
        raise CommandError(f"There is no service account {name!r}. Nothing was done.")
    return account


def _team(name: str) -> Group:
    team = Group.objects.filter(name=name).first()
    if team is None:
        raise CommandError(f"There is no team {name!r}. Nothing was done.")
    return team
