"""Every address that makes something makes it once per `Idempotency-Key`, also when the server dies
before it answers.
"""

from __future__ import annotations

import json

import pytest

from hitl.http.replay import ANSWERING
from hitl.models import IdempotencyKey
from tests.databases.undone import undone
from tests.databases.whole import rows
from tests.matrix.addresses import ADDRESSES, API, REST
from tests.matrix.walk import fill
from tests.matrix.world import BY_NAME, World

pytestmark = pytest.mark.one_database

AGAIN = {
    f"{API}work-orders/<wo:order_id>/suspend",
    f"{API}runs/<run:run_id>/suspend",
    f"{API}pauses/<pse:pause_id>/claim",
    f"{API}pauses/<pse:pause_id>/presence",
}
"""They make nothing: done twice they leave what they left once."""
TABLES = {"hitl.IdempotencyKey", "hitl.Presence"}


def left() -> dict[str, list[int]]:
    return {
        label: [row["id"] for row in found if "id" in row]
        for label, found in rows().items()
        if label not in TABLES
    }


def test_what_is_sent_again_after_its_server_died_makes_nothing_more(world: World) -> None:
    """F7: whatever was done when the server died was done again a minute later, at every
    address.
    """
    wrong = []
    for path, address in ADDRESSES.items():
        if not (path.startswith(REST) and address.done):
            continue
        url, _ = fill(world, path, address.done)

        def post(url: str = url, body: str = json.dumps(dict(address.body))) -> tuple[int, str]:
            client = world.client(BY_NAME["owner"])
            answer = client.post(
                url, body, content_type="application/json", headers={"Idempotency-Key": "one"}
            )
            return answer.status_code, answer.get("Idempotent-Replayed", "")

        with undone():
            first = post()
            made = left()
            keys = IdempotencyKey.objects.all()
            if path not in AGAIN and not keys.get().made:
                wrong.append(f"{path}: {first}, and its key does not say what was made")
            for key in keys:
                key.status, key.kept, key.body, key.made_at = None, "", b"", key.made_at - ANSWERING
                key.save()
            again = post()
            if left() != made or (path not in AGAIN and (again[0] >= 400 or not again[1])):
                wrong.append(
                    f"{path}: {first}, then {again}; "
                    f"{[kind for kind in made if made[kind] != left()[kind]]}"
                )
    assert wrong == []
