from __future__ import annotations

import getpass
import secrets
import sys
from typing import Any

from django.contrib.auth.models import Group
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser
from django.core.validators import validate_email
from django.db import transaction

from checkpoints.checks import OURS
from checkpoints.database.people import NAME, User, called
from checkpoints.management.shown import PlainCommand
from runs.workflows import refusals


class Command(PlainCommand):
    help = (
        "Make somebody who asks for work or reviews it, or change them: teams, mail address, "
        "password. Whoever is new gets a password, printed once, as the last word of the output."
    )
    requires_system_checks = OURS

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the name to log in with")
        parser.add_argument(
            "--group",
            action="append",
            default=[],
            dest="groups",
            help="a team they are in from now on; may be repeated",
        )
        parser.add_argument("--mail", help="where their mails go")
        parser.add_argument(
            "--password", action="store_true", help="ask for their password, or read it from input"
        )
        state = parser.add_mutually_exclusive_group()
        state.add_argument("--off", action="store_true", help="log in no more; all is kept")
        state.add_argument("--on", action="store_true", help="may log in again")

    def handle(self, *args: Any, **options: Any) -> None:
        given = self._read_password() if options["password"] else ""
        with transaction.atomic():
            user, made = self._save(options, given)
        teams = ", ".join(user.groups.order_by("name").values_list("name", flat=True)) or "no team"
        off = "" if user.is_active else ", switched off"
        self.stdout.write(f"{'Made' if made else 'Changed'} {options['name']}: {teams}{off}.")
        if made and not given:
            self.stdout.write(f"Password, shown only now: {self._shown}")

    def _save(self, options: dict[str, Any], given: str) -> tuple[User, bool]:
        name, mail = options["name"].strip(), options["mail"]
        groups = [_team(one) for one in options["groups"]]
        user = User.objects.filter(called(name)).first()
        made = user is None
        if user is None:
            user = User(**{NAME: name})
            self._shown = given or secrets.token_urlsafe(12)
            given = self._shown
        try:
            if mail is not None:
                validate_email(mail)
                setattr(user, User.get_email_field_name(), mail)
            if given:
                validate_password(given, user)
                user.set_password(given)
            if options["on"] or options["off"]:
                user.is_active = options["on"]
            user.full_clean()
        except ValidationError as error:
            raise CommandError(f"{' '.join(error.messages)} Nothing was done.") from error
        user.save()
        user.groups.add(*groups)
        return user, made

    def _read_password(self) -> str:
        """From whoever types it, twice; or the first line of the input. Never an argument, which
        other people of the machine could read.
        """
        if not sys.stdin.isatty():
            return sys.stdin.readline().rstrip("\n")
        first, second = getpass.getpass(), getpass.getpass("Again: ")
        if first != second:
            raise CommandError("The two are not the same. Nothing was done.")
        return first


def _team(name: str) -> Group:
    team = Group.objects.filter(name=name).first()
    if team is None:
        known = Group.objects.values_list("name", flat=True)
        there = refusals.unknown("group", name, known)
        raise CommandError(f"{there} `manage.py group NAME` makes one. Nothing was done.")
    return team
