"""Log lines never hold the token of a link: whoever reads a log could answer as the person whom the
link was sent to. Nor do they hold API tokens, secrets of webhooks, passwords in addresses, and the
secrets that the run at hand was given.

Servers write the path of each request (Daphne to a stream of its own, uvicorn through `logging`),
Django that of each refused one, and a traceback what an exception says: all of them pass here.
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any

from django.conf import settings

from checkpoints.state.redaction import MARKER
from checkpoints.telemetry import about

LINK = re.compile(r"(/l/)[A-Za-z0-9_%~.=-]{8,}")
"""The path of a link, also one that was cut off or has more behind it (`hitl.urls`)."""
TOKEN = re.compile(r"\b(wst_|whsec_|[Bb]earer )[A-Za-z0-9_~+/.=-]{8,}")
PASSWORD = re.compile(r"(://[^\s/:@\"']*:)[^\s/@\"']+(?=@)")
"""Of an address, such as a database's or a broker's."""
access = logging.getLogger("waystation.access")


def redacted(text: str) -> str:
    text = about.scrubbed(text)
    for pattern in (LINK, TOKEN, PASSWORD):
        text = pattern.sub(rf"\1{MARKER}", text)
    return text


def install() -> None:
    """From now on no record of `logging` in this process, and no line of Daphne's access log, holds
    a token. Again: nothing more.
    """
    made = logging.getLogRecordFactory()
    if not getattr(made, "redacts_links", False):
        logging.setLogRecordFactory(_factory(made))
    # loaded by Daphne itself before it loads this application
    daphne = sys.modules.get("daphne.access")
    if daphne is not None and not getattr(
        daphne.AccessLogGenerator.write_entry, "redacts_links", False
    ):
        daphne.AccessLogGenerator.write_entry = _entry(daphne.AccessLogGenerator.write_entry)


def _factory(make: Callable[..., logging.LogRecord]) -> Callable[..., logging.LogRecord]:
    def record(*args: Any, **kwargs: Any) -> logging.LogRecord:
        made = make(*args, **kwargs)
        made.msg = _value(made.msg)
        if isinstance(made.args, tuple):
            made.args = tuple(_value(arg) for arg in made.args)
        elif isinstance(made.args, dict):
            made.args = {name: _value(value) for name, value in made.args.items()}
        if made.exc_info and made.exc_info[0] is not None:
            # what formatters then use
            made.exc_text = redacted(
                "".join(traceback.format_exception(*made.exc_info)).rstrip("\n")
            )
        return made

    record.redacts_links = True  # type: ignore[attr-defined]  # a mark, read by `install`
    return record


def _value(value: Any) -> Any:
    """Text without tokens; of anything else that would be written with one, its text.

    A number stays one, for `%d`.
    """
    if isinstance(value, str):
        return redacted(value)
    if value is None or isinstance(value, int | float):
        return value
    written = str(value)
    clean = redacted(written)
    return value if clean == written else clean


def _entry(write: Callable[..., None]) -> Callable[..., None]:
    as_json = getattr(settings, "LOG_FORMAT", "") == "json"

    def entry(self: Any, host: Any, date: Any, request: str, *args: Any, **kwargs: Any) -> None:
        if as_json:  # one stream, of one kind of line
            status = kwargs.get("status") or (args[0] if args else "-")
            access.info("%s %s %s", host, request, status)
        else:
            write(self, host, date, redacted(request), *args, **kwargs)

    entry.redacts_links = True  # type: ignore[attr-defined]  # as above
    return entry
