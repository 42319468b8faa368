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
    "an empty request": (1_300, 0),
    "inbox": (54_700, 7),
    "a changed row of an inbox with filters": (4_100, 4),
    "order page": (35_700, 10),
    "order page with a question, looked at again": (9_100, 5),
    "order page with a question, nothing new": (3_900, 4),
    "order page with a question, all of it again": (27_800, 7),
    "order at work, looked at again": (3_600, 4),
    "thread page": (39_900, 13),
    "list of orders": (35_200, 8),
    "REST, open questions": (30_900, 4),
    "REST, one question": (3_400, 3),
    "REST, one order": (3_300, 3),
    "POST an order": (10_500, 11),
    "an order alone": (6_000, 8),
    "POST a decision": (7_200, 10),
    "admin, checkpoints": (77_300, 3),
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
    assert not heavier, f"{heavier}"
