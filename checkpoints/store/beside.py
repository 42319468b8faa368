"""Whether the rows and a store of states beside the database are of one moment: after a restore of
either, bodies are missing, or there are some that no row knows.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from itertools import islice

from checkpoints.contract import configured
from checkpoints.contract.base import BodyStore, CheckpointDamaged, shown
from checkpoints.database import clock
from checkpoints.models import Checkpoint
from checkpoints.state import codec
from checkpoints.store import bodies

NEWEST = 200
"""Checkpoints whose bodies are looked for."""
LOOKED_AT = 20_000
"""Bodies whose rows are looked for."""
AT_ONCE = 500
SETTLED = 60.0
"""Seconds after which a body's commit is not under way any more."""


@dataclass(frozen=True)
class Apart:
    missing: list[str]
    """Checkpoints (ckpt_…) among the newest whose body is nowhere."""
    unknown: list[str]
    """Bodies without a row, among those looked at, newest first."""


def compare() -> Apart | None:
    """Look at the newest rows and at a part of the bodies; None where all is in the database.

    `manage.py verify_checkpoints` and `drop_stray_bodies --dry-run` look at all. Raises
    StoreUnavailable.
    """
    stores = [store for store in configured.readable() if isinstance(store, BodyStore)]
    if not stores:
        return None
    unknown: list[uuid.UUID] = []
    before = int((clock.now().timestamp() - SETTLED) * 1000)
    for store in stores:
        # a UUIDv7 begins with milliseconds
        keys = (key for _, key in islice(store.bodies(), LOOKED_AT) if key.int >> 80 < before)
        while some := list(islice(keys, AT_ONCE)):
            rows = set(Checkpoint.objects.filter(pk__in=some).values_list("pk", flat=True))
            unknown += [key for key in some if key not in rows]
    return Apart(_missing(), [shown(key) for key in sorted(unknown, reverse=True)])


def _missing() -> list[str]:
    missing = []
    for key, body in Checkpoint.objects.order_by("-pk").values_list("pk", "body")[:NEWEST]:
        if bodies.elsewhere(body):
            try:
                bodies.fetch([body if isinstance(body, str) else codec.encode(body)])
            except CheckpointDamaged:
                missing.append(shown(key))
    return missing
