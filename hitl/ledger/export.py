"""A ledger as a file: CSV for people; JSON with all that a digest is over, to compute it again
without this server (docs/how-to/ledger.md).
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from typing import Any

from checkpoints import ids
from checkpoints.database import clock
from checkpoints.state import codec
from hitl.models import Anchor, Decision, Ledger
from runs.models import Pause, Run, WorkOrder

PAGE = 500
COLUMNS = (
    "ledger", "position", "id", "decided_at", "decided_by", "by_name", "external", "data_only",
    "early_at", "factor", "factor_at", "on_behalf_of", "for_name",
    "action", "feedback", "input", "via", "revision", "order", "run", "pause",
    "content_digest", "evidence", "goes_on_at", "undoes", "erased", "previous", "digest",
)  # fmt: skip
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a spreadsheet takes for the beginning of a formula."""


def rows(ledgers: Sequence[str]) -> Iterator[Decision]:
    """The decisions of some ledgers, in order, page by page: no cursor stays open while a client is
    slow.
    """
    for name in ledgers:
        after = 0
        mine = (
            Decision.objects.filter(ledger=name)
            .select_related("decided_by", "on_behalf_of", "erasure", "pause__run")
            .order_by("position")
        )
        while page := list(mine.filter(position__gt=after)[:PAGE]):
            yield from page
            after = page[-1].position


def told(decision: Decision) -> dict[str, Any]:
    """One decision, by COLUMNS."""
    run = decision.pause.run if decision.pause else None
    return {
        "ledger": decision.ledger_id,
        "position": decision.position,
        "id": decision.shown_id,
        "decided_at": decision.decided_at.isoformat(),
        "decided_by": decision.decided_by.get_username() if decision.decided_by else None,
        "by_name": decision.by_name or None,
        "external": decision.external or None,
        "data_only": decision.data_only,
        "early_at": decision.early_at.isoformat() if decision.early_at else None,
        "factor": decision.factor or None,
        "factor_at": decision.factor_at.isoformat() if decision.factor_at else None,
        "on_behalf_of": decision.on_behalf_of.get_username() if decision.on_behalf_of else None,
        "for_name": decision.for_name or None,
        "action": decision.action,
        "feedback": decision.feedback,
        "input": decision.payload,
        "via": decision.via,
        "revision": decision.revision,
        "order": ids.show(WorkOrder.PREFIX, run.work_order_id)
        if run and run.work_order_id
        else None,
        "run": ids.show(Run.PREFIX, run.pk) if run else None,
        "pause": ids.show(Pause.PREFIX, decision.pause_id) if decision.pause_id else None,
        "content_digest": decision.content_digest,
        "evidence": decision.evidence or None,
        "goes_on_at": decision.goes_on_at.isoformat() if decision.goes_on_at else None,
        "undoes": ids.show(Decision.PREFIX, decision.undoes_id) if decision.undoes_id else None,
        "erased": str(decision.erasure) if decision.erasure else None,
        "previous": decision.previous,
        "digest": decision.digest,
    }


def as_csv(ledgers: Sequence[str]) -> Iterator[str]:
    writer = csv.writer(_Line())
    yield writer.writerow(COLUMNS)
    for decision in rows(ledgers):
        yield writer.writerow([_cell(value) for value in told(decision).values()])


class _Line:
    """Lets csv's writer give its lines back."""

    def write(self, line: str) -> str:
        return line


def _cell(value: Any) -> Any:
    """A value as a cell that no spreadsheet computes."""
    if value is None or isinstance(value, int):
        return "" if value is None else value
    text = value if isinstance(value, str) else codec.encode(value)
    return f"'{text}" if text.startswith(FORMULA) else text


def as_json(ledgers: Sequence[str]) -> Iterator[str]:
    """One document; `signed` is what the sha256 of whose canonical JSON is the digest, null where
    the words were erased.
    """
    yield f'{{"exported_at": {json.dumps(clock.now().isoformat())}, "decisions": ['
    comma = ""
    for decision in rows(ledgers):
        signed = None if decision.erasure_id else decision.signed()
        yield f"{comma}\n{json.dumps({**told(decision), 'signed': signed})}"
        comma = ","
    ends = {
        ledger.name: {"length": ledger.length, "tip": ledger.tip}
        for ledger in Ledger.objects.filter(pk__in=list(ledgers))
    }
    anchors = [
        str(anchor)
        for anchor in Anchor.objects.filter(ledger__in=list(ledgers)).order_by("day", "ledger")
    ]
    yield f'\n], "ledgers": {json.dumps(ends)}, "anchors": {json.dumps(anchors)}}}\n'


FORMATS = {"csv": (as_csv, "text/csv; charset=utf-8"), "json": (as_json, "application/json")}
