"""What the bytes of a file are, by the bytes alone: what a sender says of them is no reason to show
them as that.
"""

from __future__ import annotations

UNKNOWN = "application/octet-stream"
PDF = "application/pdf"
PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Formats that hold pixels alone: a browser shows them, and runs nothing that is in them."""
TEXTS = frozenset({PDF, "text/plain"})
"""Formats of which a page gives the text."""
_STARTS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", PDF),
)


def of(content: bytes) -> str:
    """The media type of a file's bytes: a picture, a PDF or text, else UNKNOWN."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    for start, kind in _STARTS:
        if content.startswith(start):
            return kind
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return UNKNOWN
    return UNKNOWN if "\0" in text else "text/plain"
