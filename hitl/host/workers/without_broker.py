"""Where the broker takes no messages, being full, read-only or away, workers look into the database
for work: a decision moves its run also then.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from checkpoints.database import clock
from hitl.operations import health
from runs import tasks
from runs.models import Run

logger = logging.getLogger(__name__)

EVERY = 5.0
"""Seconds between two looks at the broker while it takes messages."""
MEANWHILE = 0.5
"""Seconds between two looks for work while there is any that no message told of."""
PATIENCE = 1.0
"""A run that is due for so long got no message: who has one begins sooner."""
AT_ONCE = 4
"""Runs that one worker takes up so at once."""


def begin(queues: Collection[str], stops: Callable[[], bool]) -> None:
    """Look from now on, in a thread of its own, until the worker stops."""
    if settings.REDIS_URL:
        name = "without-broker"
        threading.Thread(target=_look, args=(queues, stops), name=name, daemon=True).start()


def takes_messages() -> bool:
    return all(part.ok for part in health.look_at_redis())


def _look(queues: Collection[str], stops: Callable[[], bool]) -> None:
    at_work: dict[str, Future[None]] = {}
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="without-broker") as threads:
        pause = EVERY
        while not stops():
            time.sleep(pause)  # a broker tells nobody that it takes no more
            try:
                at_work = {run: work for run, work in at_work.items() if not work.done()}
                if len(at_work) < AT_ONCE and not takes_messages():
                    for run_id in _due(queues, AT_ONCE - len(at_work), besides=at_work):
                        logger.warning("the broker takes no messages; %s is taken up here", run_id)
                        at_work[run_id] = threads.submit(tasks.work_on, run_id)
            except (DatabaseError, InterfaceError) as error:
                logger.warning("could not look for work, will try again: %s", error)
            finally:
                connection.close()
            pause = MEANWHILE if at_work else EVERY


def _due(queues: Collection[str], most: int, *, besides: Collection[str]) -> list[str]:
    """Ids of runs that waited too long, of the longest ones: other workers look as well."""
    late = Run.objects.overdue(before=clock.FromNow(-PATIENCE)).filter(queue__in=queues)
    ids = late.exclude(pk__in=besides).order_by("due_at", "pk").values_list("pk", flat=True)
    oldest = list(ids[: most * AT_ONCE])
    chosen = random.sample(oldest, min(most, len(oldest)))  # spreads workers, guards nothing
    return [str(run_id) for run_id in chosen]
