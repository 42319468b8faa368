"""The ledger behind an HTTP interface: bookings are posted as JSON under a key, so that a second
attempt books nothing twice.

Where it is and what opens it is the operator's, by environment: `WAYSTATION_LEDGER_URL` and
`WAYSTATION_LEDGER_TOKEN`. A template only says that it is used (`"ledger": "rest"` in the
configuration of booking-post), so whoever edits one can send the token nowhere else.
"""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from extensions.booking.ledger import AlreadyBooked, LedgerEntry
from runs.workflows import StepFailed

SECONDS = 15.0
LONGEST = 64_000
"""Bytes of an answer that are read."""


def send(entries: Sequence[LedgerEntry], *, key: str) -> None:
    """Post a batch of bookings: `{"entries": [Entry]}`, with `Idempotency-Key`. 2xx is booked;
    redirects are not followed.

    Raises:
        AlreadyBooked: 409; the answer may hold `{"position", "invoice", "order"}` of what is there.
        StepFailed: `ledger_unknown` where no address is set; `ledger_away` where it cannot be
            reached, does not answer in time, or answers 408, 429 or 5xx: worth another try;
            `ledger_refused` with any other answer.
    """
    status, answer = _post(
        os.environ.get("WAYSTATION_LEDGER_URL", ""),
        json.dumps({"entries": list(entries)}).encode(),
        key,
    )
    if 200 <= status < 300:
        return
    if status == 409:
        raise AlreadyBooked(
            {
                "position": entries[0]["position"],
                "invoice": entries[0]["invoice"],
                "order": "another order",
                **answer,
            }
        )
    if status in {408, 429} or status >= 500:
        raise StepFailed(
            f"The ledger answered {status}. Nothing is known to be booked; the same batch "
            "is sent again.",
            code="ledger_away",
        )
    reason = str(answer.get("detail") or answer.get("error") or "")[:300]
    raise StepFailed(
        f"The ledger refused the batch with {status}. {reason}".strip(), code="ledger_refused"
    )


def _post(url: str, body: bytes, key: str) -> tuple[int, dict[str, str]]:
    place = urlsplit(url)
    if place.scheme not in {"http", "https"} or not place.hostname:
        raise StepFailed(
            "No ledger is named: set WAYSTATION_LEDGER_URL for the workers, then retry.",
            code="ledger_unknown",
        )
    connect = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
    connection = connect(place.hostname, place.port, timeout=SECONDS)
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "Idempotency-Key": key,
    }
    if token := os.environ.get("WAYSTATION_LEDGER_TOKEN"):
        headers["Authorization"] = f"Bearer {token}"
    try:
        connection.request(
            "POST", (place.path or "/") + (f"?{place.query}" if place.query else ""), body, headers
        )
        response = connection.getresponse()
        return response.status, _read(response.read(LONGEST))
    except (OSError, http.client.HTTPException) as error:
        raise StepFailed(
            f"The ledger cannot be reached ({type(error).__name__}). The same batch is sent again.",
            code="ledger_away",
        ) from error
    finally:
        connection.close()


def _read(content: bytes) -> dict[str, str]:
    """The texts of an answer that is a JSON object; of any other, nothing."""
    try:
        answer: Any = json.loads(content)
    except ValueError:
        return {}
    return (
        {str(name): value for name, value in answer.items() if isinstance(value, str)}
        if isinstance(answer, dict)
        else {}
    )
