"""A person at the shell, without the second that a new interpreter costs: runs the command for
`user action order pause revision` lines, which come over the socket of that name.
"""

import io
import socket
import sys

import django

django.setup()

from django.core.management import CommandError, call_command  # noqa: E402  # after the setup above
from django.db import DatabaseError, InterfaceError, close_old_connections  # noqa: E402  # as above

door = socket.socket(socket.AF_UNIX)
door.connect(sys.argv[1])
lines = door.makefile("rw")
for line in lines:
    user, action, order, pause, revision = line.split()
    words = [action, order, "--pause", pause]
    words += ["--revision", revision] if action != "cancel" else []
    words += ["again"] if action == "revise" else []
    close_old_connections()
    try:
        call_command("workorder", "--user", user, *words, stdout=io.StringIO())
        print("taken", file=lines, flush=True)
    except CommandError as refusal:
        print("refused", str(refusal).replace("\n", " "), file=lines, flush=True)
    except (DatabaseError, InterfaceError) as error:
        print("unreachable", str(error).replace("\n", " "), file=lines, flush=True)
