"""What commands say, as a terminal may show it."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, OutputWrapper

from checkpoints.text import invisible


class PlainOutput(OutputWrapper):
    """Where characters that steer a terminal, or that it does not show, are named."""

    # the stubs call Django's wrapper a TextIO, whose `write` it does not have
    def write(  # type: ignore[override]
        self, msg: str = "", style_func: Any = None, ending: str | None = None
    ) -> None:
        super().write(invisible.plain(msg), style_func, ending)


class PlainCommand(BaseCommand):
    """A command that is read at a terminal: titles, contents, errors and names are of other people
    and programs, and what they hide there would be approved unseen.

    What writes documents for programs is a `BaseCommand`, since nothing of them may be changed.
    """

    def execute(self, *args: Any, **options: Any) -> Any:
        for name in ("stdout", "stderr"):
            before: Any = getattr(self, name)
            output = PlainOutput(options.pop(name, None) or before._out)
            output.style_func = before.style_func
            setattr(self, name, output)
        return super().execute(*args, **options)
