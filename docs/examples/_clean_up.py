"""A script that asks people: how long are files kept, and may the older ones go?

`python3 docs/examples/_clean_up.py FOLDER`, where `pip install ./client` was done. WAYSTATION_URL
and WAYSTATION_TOKEN say whom it asks; a token of the scope `ask` is enough. It may be killed at any
moment: started again on the same day, it finds its questions, and what was answered meanwhile.
"""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import Any

from waystation_client import Denied, Waystation
from waystation_client.questions import Rules

ASKED: Rules = {"reviewers": {"groups": ["operators"]}, "deadline": "PT4H"}
DAYS: dict[str, Any] = {
    "type": "object",
    "required": ["days"],
    "properties": {"days": {"type": "integer", "minimum": 1, "title": "Days"}},
}


def older(folder: str, before: str) -> list[Path]:
    """The files that were last changed before a day, `2026-11-01`."""
    end = dt.datetime.fromisoformat(before).replace(tzinfo=dt.UTC).timestamp()
    return sorted(file for file in Path(folder).iterdir() if file.stat().st_mtime < end)


def clean_up(waystation: Waystation, folder: str, today: dt.date) -> str:
    """Ask, and delete what people let go; gives how it ended, in words."""
    asked = waystation.ask(
        f"How many days are files of {folder} kept?",
        required_inputs=DAYS,
        key=f"keep {folder} {today}",
        **ASKED,
    )
    answer = waystation.wait(asked)
    if not answer.data:
        return "Nobody said how long files are kept: nothing was deleted."

    before = str(today - dt.timedelta(days=answer.data["days"]))
    if not older(folder, before):
        return f"Nothing is older than {before}."

    @waystation.requires_approval(key=f"delete {today}", **ASKED)
    def delete(folder: str, before: str) -> str:
        for file in older(folder, before):
            file.unlink()
        return f"Deleted all that is older than {before}."

    try:
        return delete(folder, before)
    except Denied as denied:
        return f"Nothing was deleted: {denied}"


if __name__ == "__main__":
    with Waystation() as server:
        today = dt.datetime.now(dt.UTC).date()
        sys.stdout.write(f"{clean_up(server, sys.argv[1], today)}\n")
