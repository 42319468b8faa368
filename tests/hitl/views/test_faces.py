"""What pages and requests cost in calls of functions and in queries: a page that gets heavier is
noticed in its own commit. `make bench ARGS=faces` counts the same over many rows.
"""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from tests.conftest import drive
from tests.doors.faces import counted, faces
from tests.doors.thread_page import say as say
from tests.doors.thread_page import thread as thread
from tests.doors.thread_page import waiting as waiting

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]

MARGIN = 1.1
KNOWN = {
    "an empty request": (2_200, 0),
    "inbox": (120_300, 19),
    "a changed row of an inbox with filters": (19_300, 7),
    "order page": (85_000, 24),
    "order page with a question, looked at again": (64_500, 18),
    "order page with a question, nothing new": (4_500, 4),
    "order page with a question, all of it again": (31_300, 7),
    "order at work, looked at again": (5_000, 6),
    "thread page": (56_900, 16),
    "list of orders": (112_000, 15),
    "REST, open questions": (103_900, 11),
    "REST, one question": (7_300, 4),
    "REST, one order": (4_500, 3),
    "POST an order": (16_100, 18),
    "an order alone": (10_700, 15),
    "POST a decision": (10_700, 13),
    "admin, checkpoints": (171_900, 3),
}
"""Calls and queries as they were when somebody last looked. Where fewer do, write the fewer; where
more must be, say in the change why.
"""


def test_no_page_or_request_costs_more_than_is_known(make_order, waiting, ana):
    orders = [drive(make_order()) for _ in range(60)]
    root = User.objects.create_superuser("root")
    found = {face.name: counted(face) for face in faces(ana, root, orders[-1], "writing")}
    told = {name: (cost.calls, cost.queries) for name, cost in found.items()}
    heavier = {
        name: (told[name], KNOWN[name])
        for name in told
        if told[name][0] > KNOWN[name][0] * MARGIN or told[name][1] > KNOWN[name][1]
    }
    assert told.keys() == KNOWN.keys()
    assert not heavier, told
