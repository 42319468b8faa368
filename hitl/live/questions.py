"""Waiting for an answer: until a question is closed, at most so long, over the live hub.

Nobody who waits holds a thread or a connection to the database meanwhile.
"""

from __future__ import annotations

import asyncio
import uuid
from contextlib import aclosing

from checkpoints.models import EventKind
from hitl.live.hub import hub
from hitl.live.subscriptions import TERMINAL
from hitl.live.topics import in_database_thread
from runs.models import Pause
from runs.states import PauseStatus

CLOSES = TERMINAL | {EventKind.APPROVAL_RECEIVED}
"""Events by which a question may have been closed."""


async def until_closed(pause_id: uuid.UUID, *, seconds: float) -> bool:
    """Wait until a question is closed, at most so many seconds. Returns whether it is.

    Raises Pause.DoesNotExist, and what the database raises.
    """
    try:
        async with asyncio.timeout(seconds):
            thread_id, seq, is_open = await _look(pause_id)
            if not is_open:
                return True
            async with aclosing(hub().pages(thread_id, seq)) as pages:
                async for page in pages:
                    closes = any(event.event["event"] in CLOSES for event in page)
                    if closes and not (await _look(pause_id))[2]:
                        return True
    except TimeoutError:
        pass
    return False


@in_database_thread
def _look(pause_id: uuid.UUID) -> tuple[uuid.UUID, int, bool]:
    """Its thread, the number of that thread's last event, and whether it is open: in this order,
    so that nothing falls between.
    """
    row = Pause.objects.values_list("run__thread", "run__thread__last_seq").get(pk=pause_id)
    is_open = Pause.objects.filter(pk=pause_id, status=PauseStatus.OPEN).exists()
    return row[0], row[1], is_open
