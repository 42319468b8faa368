"""The seam to what is switched on beside the core: an app says of itself what it brings along.

`INSTALLED_APPS` is the only list of them. The core asks the apps that are installed, and imports
none by name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.apps import AppConfig, apps


@dataclass(frozen=True, kw_only=True)
class Door:
    """An address that web servers serve beside Django's pages."""

    path: str
    """A pattern, as `django.urls.re_path` takes it. Of two that match the longer one counts."""
    application: Any
    """ASGI."""
    socket: bool = False
    """Whether it takes WebSockets; else it takes HTTP."""
    origins: Collection[str] = ()
    """Whose pages may speak to it, beside this server's own."""
    loopback: bool = False
    """Whether it is there for clients on the server's own machine only."""


class Extension(AppConfig):
    """An app beside the core.

    What it registers by calls, such as a channel, it registers in `ready`.
    """

    steps: Sequence[str] = ()
    """Modules that register step functions, or tools of agents; each server has them where the app
    is installed.
    """
    workflows: Sequence[str] = ()
    """Modules that declare workflows, where `WAYSTATION_WORKFLOWS` does not replace them."""
    words: Sequence[str] = ()
    """What its steps keep in English, marked with `gettext_noop`: labels, questions, facts. Pages
    translate these texts where they show them; `%(name)s` in one stands for a value.
    """

    def __init_subclass__(cls) -> None:
        cls.default = True  # else Django takes neither: an `apps.py` imports this class, too

    def demo(self, by: Any) -> None:
        """Make the first work that somebody finds who tries the product out, asked for by `by`."""

    def doors(self) -> Iterable[Door]:
        """Give what a web server serves of this app; it asks once, when it starts."""
        return ()

    def serve_alone(self, *, demo: bool) -> None:
        """Switch on what needs no account, where the environment says nothing of it.

        `manage.py standalone` asks before it serves; `demo` is its option.
        """


def installed() -> list[Extension]:
    """The extensions of this installation, in the order of `INSTALLED_APPS`."""
    return [config for config in apps.get_app_configs() if isinstance(config, Extension)]
