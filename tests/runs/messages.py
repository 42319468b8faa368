"""Messages to workers, in a test that counts them."""

from __future__ import annotations

import threading

import pytest

from runs import tasks


@pytest.fixture
def sending_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is given to the sender's thread is done by the caller instead, so that a test sees it
    done.

    Before: a message of an earlier test that the thread still had was counted as this one's, and so
    was a hint for a minute later.
    """
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer) and thread.function is tasks._nudge_now:
            thread.cancel()
            thread.join(60)
            tasks._later.release()
    assert tasks._sender.flush(60)

    def give(job):
        job()
        return True

    monkeypatch.setattr(tasks._sender, "give", give)
    monkeypatch.setattr(tasks, "_broken_until", 0.0)
