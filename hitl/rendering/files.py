"""Files that people handed in, as they are given back: to be saved, and shown only where nothing in
them can act.
"""

from __future__ import annotations

import sys
from pathlib import Path

from django.http import HttpResponse
from django.utils.http import content_disposition_header

from checkpoints.text import media
from runs.processes import process

SECONDS = 5.0
"""That the text of a PDF may take."""
READER = Path(__file__).with_name("pdf_text.py")


def as_download(content: bytes, name: str, kind: str, *, preview: bool = False) -> HttpResponse:
    """A response with a file. A browser saves it, and guesses nothing of it; `preview` lets it show
    a picture.
    """
    shown = preview and kind in media.PICTURES
    response = HttpResponse(content, content_type=kind if shown else media.UNKNOWN)
    response["Content-Disposition"] = content_disposition_header(not shown, name) or "attachment"
    return _sealed(response)


def as_text(content: bytes, kind: str) -> HttpResponse:
    """The text of a file, as far as it has one."""
    text = text_of(content, kind)
    return _sealed(HttpResponse(text, content_type="text/plain; charset=utf-8"))


def text_of(content: bytes, kind: str) -> str:
    """The text of a file: of a PDF that of its first pages, "" where none can be read.

    A PDF is a program of a stranger, in a way: it is read in a process of its own, within bounds.
    """
    if kind == "text/plain":
        return content.decode("utf-8", "replace")
    if kind != media.PDF:
        return ""
    bounds = process.Bounds(seconds=SECONDS, max_output=1_000_000)
    arguments = [sys.executable, "-I", str(READER)]
    try:
        done = process.run(arguments, cwd=READER.parent, env={}, bounds=bounds, stdin=content)
    except process.ProcessFailed:
        return ""
    return done.output.decode("utf-8", "replace") if done.returncode == 0 else ""


def _sealed(response: HttpResponse) -> HttpResponse:
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response["Cache-Control"] = "private, no-store"
    return response
