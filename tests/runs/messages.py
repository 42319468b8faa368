"""Messages to workers, in a test that counts them."""

from __future__ import annotations

import pytest

from runs import tasks


@pytest.fixture
def sending_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is given to the sender's thread is done by the caller instead, so that a test sees it
    done.

    Before: a message of an earlier test that the thread still had was counted as this one's, and so
    was a hint for a minute later.
    """
    tasks._later.forget()
    assert tasks._sender.flush(60)

    def give(job):
        job()
        return True

    monkeypatch.setattr(tasks._sender, "give", give)
    monkeypatch.setattr(tasks, "_broken_until", 0.0)
