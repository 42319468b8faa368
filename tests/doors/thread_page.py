"""What is said on a thread's page, as a browser without JavaScript says it."""

from __future__ import annotations

import pytest

from tests.runs.engine.children.crews import work_off
from tests.worlds.talking_threads import thread as thread


def url(thread, tail=""):
    return f"/threads/{thread.shown_id}/{tail}"


@pytest.fixture
def say(page, thread):
    """`say("Hello")`: sends the form, lets workers work, gives the page that comes of it."""

    def say(words, *, work=True, **fields):
        response = page.post(url(thread, "say"), {"text": words, **fields})
        if work:
            work_off()
        if response.status_code != 302:
            return response
        assert response["Location"] == url(thread)
        return page.get(url(thread))

    return say


@pytest.fixture
def waiting(say, thread):
    """The thread, which waits for its plan's approval."""
    say("Hello", template="talk-pausing")
    return thread


def spoken(shown):
    return shown.split('data-live="said"')[1].split("</section>")[0]
