import getpass
import sys
from typing import Any

from django.contrib.auth.models import Group
from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from checkpoints.checks import OURS
from checkpoints.management.shown import PlainCommand
from runs.models import Credential
from runs.security import credentials

COMMANDS = {
    "set": "keep a value, over the one that was there",
    "bind": "say which hosts one may be sent to; its value stays",
    "remove": "delete one",
}


class Command(PlainCommand):
    help = (
        "Keep secrets that steps and tools use by name. A value is read from standard input, "
        "never from the command line, and never shown."
    )
    requires_system_checks = OURS

    def add_arguments(self, parser: CommandParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True)
        for name, help_text in COMMANDS.items():
            command = commands.add_parser(name, help=help_text)
            command.add_argument("name", help="how steps call it, e.g. OPENAI_API_KEY")
            command.add_argument("--team", default="", help="for runs of this team only")
            if name == "set":
                command.add_argument(
                    "--note", default=None, help="what it is for; no part of the secret"
                )
            if name in {"set", "bind"}:
                bound = command.add_mutually_exclusive_group(required=name == "bind")
                bound.add_argument(
                    "--host",
                    action="append",
                    dest="hosts",
                    help="a host that it may be sent to, e.g. api.openai.com; again for more",
                )
                bound.add_argument(
                    "--any-host",
                    action="store_const",
                    const=[],
                    dest="hosts",
                    help="it may be sent to any host",
                )
        commands.add_parser("list", help="names, teams and times")

    def handle(self, *args: Any, **options: Any) -> None:
        match options["command"]:
            case "set":
                self._set(
                    options["name"], _team(options["team"]), options["note"], options["hosts"]
                )
            case "bind":
                self._bind(options["name"], _team(options["team"]), options["hosts"])
            case "remove":
                self._remove(options["name"], _team(options["team"]))
            case "list":
                self._list()

    def _set(
        self, name: str, team: Group | None, note: str | None, sent_to: list[str] | None
    ) -> None:
        value = (
            getpass.getpass(f"Value of {name}, not shown: ")
            if sys.stdin.isatty()
            else sys.stdin.read(credentials.LONGEST + 2)
        )
        try:
            kept = credentials.put(name, value, team=team, note=note, sent_to=sent_to)
        except credentials.CredentialInvalid as error:
            raise CommandError(f"{name} was not kept. {error}") from None
        self.stdout.write(
            f"{name} {'replaced' if kept.rotated_at else 'kept'} for {_whose(kept)}. It may "
            f"be sent to {kept.bound_to}."
        )

    def _bind(self, name: str, team: Group | None, sent_to: list[str]) -> None:
        try:
            count = Credential.objects.filter(name=name, team=team).update(
                hosts=credentials.check_hosts(sent_to)
            )
        except credentials.CredentialInvalid as error:
            raise CommandError(f"{name} was not changed. {error}") from None
        if not count:
            raise CommandError(f"There is no credential {name!r} of {team or 'all teams'}.")
        self.stdout.write(
            f"{name} may be sent to {Credential.objects.get(name=name, team=team).bound_to} "
            "from now on."
        )

    def _remove(self, name: str, team: Group | None) -> None:
        credential = Credential.objects.filter(name=name, team=team).first()
        if credential is None:
            raise CommandError(f"There is no credential {name!r} of {team or 'all teams'}.")
        credential.delete()
        self.stdout.write(f"{name} removed. Runs that ask for it fail from now on, and say so.")

    def _list(self) -> None:
        for credential in (
            Credential.objects.defer("value").select_related("team").order_by("name", "pk")
        ):
            used = (
                f"used {timezone.localtime(credential.used_at):%Y-%m-%d %H:%M}"
                if credential.used_at
                else "never used"
            )
            self.stdout.write(
                f"{credential.name:<32} {_whose(credential):<24} {used:<22} {credential.bound_to}"
            )


def _team(name: str) -> Group | None:
    if not name:
        return None
    team = Group.objects.filter(name=name).first()
    if team is None:
        raise CommandError(f"There is no team {name!r}.")
    return team


def _whose(credential: Credential) -> str:
    return str(credential.team) if credential.team else "all teams"
