"""Log lines as JSON, one object each: `LOG_FORMAT=json`, and a formatter for other projects."""

from __future__ import annotations

import datetime as dt
import json
import logging

from checkpoints.telemetry import about, spans

LONGEST = 32_000
"""Characters of a message, and of a traceback: what collects logs cuts or drops longer lines."""


class JsonLines(logging.Formatter):
    """Time in UTC, level, logger, message, the run, thread and request that the work is about, the
    ids of the current span, and a traceback.

    Nothing else of a record is written: what libraries hang on it may be a request with its
    headers. Secrets are taken out before, as for lines of text (`checkpoints.telemetry.log_lines`).
    """

    def format(self, record: logging.LogRecord) -> str:
        at = dt.datetime.fromtimestamp(record.created, dt.UTC)
        line = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": _cut(record.getMessage()),
            **about.ids(),
            **(spans.tracing.ids() if spans.tracing is not None else {}),
        }
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            line["exception"] = _cut(record.exc_text)
        if record.stack_info:
            line["stack"] = _cut(self.formatStack(record.stack_info))
        text = json.dumps(line, ensure_ascii=False)
        return text.encode("utf-8", "backslashreplace").decode()  # half a surrogate is no text


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"
