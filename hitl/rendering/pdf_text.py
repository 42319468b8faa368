"""A program: reads a PDF from its input and writes the text of the first pages."""

from __future__ import annotations

import io
import resource
import sys

PAGES = 5
LONGEST = 100_000
MEMORY = 1 << 30


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (5, 5))
    from pypdf import PdfReader

    reader = PdfReader(io.BytesIO(sys.stdin.buffer.read()))
    texts = (reader.pages[place].extract_text() for place in range(min(PAGES, len(reader.pages))))
    text = "\n\n".join(texts)[:LONGEST]
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))


if __name__ == "__main__":
    main()
