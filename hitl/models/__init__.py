"""People's answers, tokens and rules; what goes out; the wait gate's rows; presence."""

from hitl.models import outbound as outbound  # Django looks for tables here
from hitl.models.decisions import (
    STEP_AROUND,
    UNDO,
    Anchor,
    ApiToken,
    Decision,
    Delegation,
    Erasure,
    IdempotencyKey,
    Import,
    Ledger,
    Snooze,
    Via,
    Vote,
    ledger_name,
    name_of,
)
from hitl.models.presence import Presence
from hitl.models.wait_gate import EarlyAnswer, InboundSource, OuterRun, Wait

__all__ = [
    "STEP_AROUND",
    "UNDO",
    "Anchor",
    "ApiToken",
    "Decision",
    "Delegation",
    "EarlyAnswer",
    "Erasure",
    "IdempotencyKey",
    "Import",
    "InboundSource",
    "Ledger",
    "OuterRun",
    "Presence",
    "Snooze",
    "Via",
    "Vote",
    "Wait",
    "ledger_name",
    "name_of",
]
