"""`make foreign`: other people's pages are built, and used in a browser."""

from __future__ import annotations

import sys

from tests import run
from tests.stories.foreign import pages

if __name__ == "__main__":
    try:
        for client in (pages.INBOX, pages.CHAT, pages.COPILOTKIT):
            pages.make(client)
    except pages.Missing as missing:
        sys.exit(str(missing))
    sys.exit(
        run.main(
            sys.argv[1:] or [f"{pages.HERE.relative_to(run.ROOT)}/{name}" for name in pages.STORIES]
        )
    )
