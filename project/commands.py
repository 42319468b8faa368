"""`manage.py`, and `waystation-server` of an installation: what an operator can mend is one
sentence and exit code 1, not a traceback.

`--traceback` shows that all the same.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line
from django.db import Error

from checkpoints.database import outages

ROLES = {
    "web": "a web server",
    "worker": "a worker of steps",
    "control": "a worker of rounds and messages",
    "agents": "a worker of steps that take minutes",
    "beat": "the timer; one is enough",
    "prepare": "migrate and collect static files, then end",
}
"""What `manage.py start` begins."""


def server() -> None:
    """Run `waystation-server`: the commands of an installation, which has no `manage.py`."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    chosen, rest = _parser().parse_known_args()
    match chosen.command:
        case "manage":
            words = rest
        case "up":
            words = ["standalone", *([] if chosen.bare else ["--demo"]), "--reload", *rest]
            if chosen.data:
                os.environ["WAYSTATION_DATA"] = str(Path(chosen.data).expanduser().resolve())
            if chosen.repositories:
                os.environ["WAYSTATION_REPOSITORIES"] = chosen.repositories
            if chosen.workflows:
                os.environ["WAYSTATION_WORKFLOWS"] = f"+{chosen.workflows}"
        case role:
            words = ["start", role, *rest]
    sys.argv = ["manage.py", *words]  # settings read what is run
    main(sys.argv)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="waystation-server",
        description="Where long-running work stops for a person and starts again.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser(
        "up", help="run everything in one process, with a demo; also --host, --port"
    )
    up.add_argument("--data", help="the folder that holds everything")
    up.add_argument("--workflows", help="folders or modules of workflows of your own")
    up.add_argument("--repositories", help="folders whose repositories may be worked on")
    up.add_argument("--bare", action="store_true", help="without the demo's reviewer and work")
    commands.add_parser("manage", add_help=False, help="a command of manage.py")
    for role, words in ROLES.items():
        commands.add_parser(role, add_help=False, help=words)
    return parser


def main(arguments: list[str]) -> None:
    """Run a command.

    Settings that cannot hold, and a database that is away or without its tables, end it with words
    on stderr.
    """
    try:
        execute_from_command_line(arguments)
    except (ImproperlyConfigured, Error) as error:
        if "--traceback" in arguments or (message := said(error)) is None:
            raise
        sys.exit(message)


def said(error: ImproperlyConfigured | Error) -> str | None:
    """What to tell the operator; None for an error that is none of theirs."""
    if isinstance(error, ImproperlyConfigured):
        return f"Waystation cannot start: {error}"
    if outages.lacks_tables(error):
        if settings.WAYSTATION_EMPTY:
            return (
                f"There is no Waystation in {settings.WAYSTATION_DATA} yet. Start it once, or "
                "name its folder with WAYSTATION_DATA."
            )
        return (
            "The database lacks tables of this version. Run `manage.py migrate` first; nothing "
            "was changed."
        )
    if outages.is_trouble(error):
        return f"The database cannot be used: {' '.join(str(error).split())[:300]}"
    return None
