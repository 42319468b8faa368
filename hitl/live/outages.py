"""What those who watch are told while the database does not answer, and once it does again: in
words, with a stable code.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import NamedTuple

from checkpoints.database.outages import OutageAnswer

AWAY = 4503
"""Close code of a socket that cannot be opened, or whose rights cannot be looked at, for want of
the database.
"""
DETAIL = (
    "The database does not answer at the moment, so there is no news. Nothing is lost; this "
    "stream goes on by itself."
)
RETRY_MS = 2000
"""When a reader of server-sent events that lost its connection comes back, in health."""


class Outage(NamedTuple):
    """The database's trouble; None once it is over."""

    said: OutageAnswer | None

    @property
    def message(self) -> str:
        """For a socket."""
        if self.said is None:
            return '{"type": "recovered"}'
        return json.dumps(
            {"type": "error", "problem": problem(self.said), "retry": self.said.after}
        )

    @property
    def frame(self) -> bytes:
        """For server-sent events: it has no number, so nobody's cursor moves."""
        if self.said is None:
            return f"event: recovered\nretry: {RETRY_MS}\ndata: {{}}\n\n".encode()
        return (
            f"event: error\nretry: {self.said.after * 1000}\ndata: "
            f"{json.dumps(problem(self.said))}\n\n"
        ).encode()


def problem(outage: OutageAnswer) -> dict[str, str | int]:
    return {
        "type": "about:blank",
        "title": HTTPStatus(outage.status).phrase,
        "status": outage.status,
        "code": outage.code,
        "detail": DETAIL,
    }
