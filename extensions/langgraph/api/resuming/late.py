"""Answers that came too late stay refused for a while.

Released clients send a refused request again by themselves, for half a minute, under no
`Idempotency-Key`. By then the thread may ask something else, which nobody has seen: a bare "ignore"
or some words would answer that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from django.core.cache import cache
from redis.exceptions import RedisError

from checkpoints.models import Thread
from checkpoints.state import codec
from extensions.langgraph.api.calls import Call
from hitl.decisions.services import AlreadyAnswered, NotPaused, RevisionMismatch
from hitl.live.pump import StreamRefused

SECONDS = 60
"""That the same answer of the same person to the same thread stays refused."""


@contextmanager
def kept_refused(call: Call, thread: Thread) -> Iterator[None]:
    """Around an answer that names no interrupt. Raises StreamRefused where it was too late before,
    and what the answer itself raises.
    """
    sent = codec.digest(codec.encode([call.by.pk, thread.shown_id, call.data]))
    key = f"langgraph-late:{sent}"
    if _known(key):
        raise StreamRefused(
            409,
            "stale",
            "Nothing was decided: this same answer came too late a moment ago, and what is asked "
            f"now may be something else. Name its interrupt, or send it in {SECONDS} s.",
        )
    try:
        yield
    except (AlreadyAnswered, NotPaused, RevisionMismatch, StreamRefused) as refused:
        if not isinstance(refused, StreamRefused) or refused.code == "stale":
            with suppress(RedisError, OSError):
                cache.set(key, True, SECONDS)
        raise


def _known(key: str) -> bool:
    """Not where the cache is away: then answers are judged as each comes."""
    with suppress(RedisError, OSError):
        return bool(cache.get(key))
    return False
