"""A person at the shell, without the second that a new interpreter costs: runs the command for
`user action order pause revision` lines.
"""

import io
import sys

import django

django.setup()

from django.core.management import CommandError, call_command  # noqa: E402  # after the setup above
from django.db import DatabaseError, InterfaceError, close_old_connections  # noqa: E402  # as above

for line in sys.stdin:
    user, action, order, pause, revision = line.split()
    words = [action, order, "--pause", pause]
    words += ["--revision", revision] if action != "cancel" else []
    words += ["again"] if action == "revise" else []
    close_old_connections()
    try:
        call_command("workorder", "--user", user, *words, stdout=io.StringIO())
        print("taken", flush=True)
    except CommandError as refusal:
        print("refused", str(refusal).replace("\n", " "), flush=True)
    except (DatabaseError, InterfaceError) as error:
        print("unreachable", str(error).replace("\n", " "), flush=True)
