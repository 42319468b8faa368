from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group, Permission
from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from checkpoints.checks import OURS
from checkpoints.database.people import NAME
from checkpoints.management.shown import PlainCommand
from runs.workflows import refusals


class Command(PlainCommand):
    help = "Make a team, or give rights to one; then say who is in it and what it may."
    requires_system_checks = OURS

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="as review rules, pages and `person --group` name it")
        parser.add_argument(
            "--right",
            action="append",
            default=[],
            dest="rights",
            help="a right that its members get, such as runs.add_schedule; may be repeated",
        )

    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> None:
        name = options["name"].strip()
        if not 0 < len(name) <= 150:
            raise CommandError("A name has up to 150 characters. Nothing was done.")
        rights = [_right(dotted) for dotted in options["rights"]]
        team, made = Group.objects.get_or_create(name=name)
        team.permissions.add(*rights)
        people = team.user_set.order_by(NAME).values_list(NAME, flat=True)
        held = team.permissions.select_related("content_type")
        self.stdout.write(f"{'Made' if made else 'There was'} the group {name}.")
        self.stdout.write(f"People: {', '.join(people) or 'none'}")
        named = sorted(f"{right.content_type.app_label}.{right.codename}" for right in held)
        self.stdout.write(f"Rights: {', '.join(named) or 'none of its own'}")


def _right(dotted: str) -> Permission:
    app, _, codename = dotted.partition(".")
    right = Permission.objects.filter(content_type__app_label=app, codename=codename).first()
    if right is None:
        known = (f"{label}.{name}" for label, name in _all_rights())
        raise CommandError(f"{refusals.unknown('right', dotted, known)} Nothing was done.")
    return right


def _all_rights() -> list[tuple[str, str]]:
    names = Permission.objects.values_list("content_type__app_label", "codename")
    return [(label, name) for label, name in names if label in OURS]
