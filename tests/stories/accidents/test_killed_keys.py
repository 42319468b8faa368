"""Every address that makes something, on a server killed with `kill -9`: the same key then answers
truly, and one thing is there.
"""

from __future__ import annotations

import pytest

from tests.matrix.addresses import ADDRESSES, REST
from tests.stories.accidents.drills import drill, summary_of

pytestmark = pytest.mark.stack

WITHOUT_KEYS = {f"api/v1/channels/{name}" for name in ("mail", "slack", "teams", "telegram")}
"""Their senders know no keys: a mail is taken once by its Message-ID, and a press answers the
revision that it names, which only one answer does (tests/extensions,
tests/matrix/races/doors.py).
"""


def test_one_thing_per_key_whatever_address_the_server_dies_at(tmp_path):
    """F7: each address that takes a POST is killed right before its COMMIT, right after it, or with
    its answer ready; counted from outside. Sixteen of them were left out.

    `make chaos ARGS="--faults keys"` does it at every statement.
    """
    done = drill(
        "tests.killed.keys",
        "--brief",
        DJANGO_SETTINGS_MODULE="project.settings",
        WAYSTATION_DATA=str(tmp_path),
        WAYSTATION_REPOSITORIES=str(tmp_path),
        LOG_LEVEL="CRITICAL",
    )
    found = summary_of(done)
    assert found["wrong"] == []
    assert set(found["addresses"]) == {
        path
        for path, address in ADDRESSES.items()
        if path.startswith(REST) and "POST" in address.methods and path not in WITHOUT_KEYS
    }
    assert len(found["addresses"]) == found["cases"] == found["killed"]
