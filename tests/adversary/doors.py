"""Every door of the product, from its own tables: addresses of pages and REST, the admin, sockets,
streams and commands.
"""

from __future__ import annotations

import argparse

from django.contrib import admin
from django.core.management import get_commands, load_command_class

from extensions.mcp.door.server import TOOLS
from hitl.http.refusals import exception_handler
from hitl.live import routing
from tests.doors import langgraph
from tests.matrix.addresses import ADDRESSES, SAFE, served
from tests.matrix.desk.tables import CHANGED, PAGES

OURS = ("checkpoints", "runs", "hitl", "extensions.")


def acting() -> set[str]:
    """The doors through which something may be changed: `POST <address>`, `admin <page>`, `socket
    <address>`, `tool <name>`, `graph POST <address>`, `command <name>`.
    """
    return _addresses() | _desk() | _sockets() | _tools() | langgraph.acting() | _commands()


def reading() -> list[str]:
    """The addresses that are only looked at, by GET; the admin's show what is everybody's, to those
    with rights.
    """
    return sorted(path for path, address in ADDRESSES.items() if "GET" in address.methods)


def _addresses() -> set[str]:
    """An address of which the table of the matrix does not say what it takes may take anything."""
    found = set()
    for path, _, of_admin in served():
        if not of_admin:
            methods = ADDRESSES[path].methods if path in ADDRESSES else {"POST"}
            found |= {f"{method} {path}" for method in methods if method not in SAFE}
    return found


def _desk() -> set[str]:
    found = {f"admin {page}" for page in PAGES} | {
        f"admin {model} {what}" for model, done in CHANGED.items() for what in done
    }
    for model, pages in admin.site._registry.items():
        listed = [
            *(pages.actions or ()),
            *(
                name
                for kind in ("row", "detail", "list", "submit_line")
                for name in getattr(pages, f"actions_{kind}", ())
            ),
        ]
        found |= {
            f"admin {model._meta.label} {getattr(action, '__name__', action)}" for action in listed
        }
    return found


def _sockets() -> set[str]:
    """A stream is read only: its routes take no word from their clients."""
    return {f"socket {entry.pattern}" for entry in routing.websockets(exception_handler)}


def _tools() -> set[str]:
    return {f"tool {name}" for name, tool in TOOLS.items() if not tool.reads}


def _commands() -> set[str]:
    found: set[str] = set()
    for name, app in get_commands().items():
        if str(app).startswith(OURS):
            parser = load_command_class(str(app), name).create_parser("manage.py", name)
            subs = [
                action.choices
                for action in parser._actions
                if isinstance(action, argparse._SubParsersAction)
            ]
            found |= {f"command {name} {sub}" for choices in subs for sub in choices} or {
                f"command {name}"
            }
    return found
