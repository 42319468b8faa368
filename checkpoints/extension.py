"""The seam to what is switched on beside the core: an app says of itself what it brings along.

`INSTALLED_APPS` is the only list of them. The core asks the apps that are installed, and imports
none by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig, apps


class Extension(AppConfig):
    """An app beside the core.

    What it registers by calls, such as a channel or a door, it registers in `ready`.
    """

    steps: Sequence[str] = ()
    """Modules that register step functions; each server has them where the app is installed."""
    workflows: Sequence[str] = ()
    """Modules that declare workflows, where `WAYSTATION_WORKFLOWS` does not replace them."""

    def __init_subclass__(cls) -> None:
        cls.default = True  # else Django takes neither: an `apps.py` imports this class, too

    def demo(self, by: Any) -> None:
        """Make the first work that somebody finds who tries the product out, asked for by `by`."""


def installed() -> list[Extension]:
    """The extensions of this installation, in the order of `INSTALLED_APPS`."""
    return [config for config in apps.get_app_configs() if isinstance(config, Extension)]
