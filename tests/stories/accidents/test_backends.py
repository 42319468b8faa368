"""Real runs whose states are in Redis and in files: paused, answered, resumed, and taken over from
a worker that was killed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.databases.copies import TOKENS
from tests.servers.stack import SlowStack, until
from tests.stories.conftest import make_slow_stack

pytestmark = pytest.mark.stack
COUNT = """
from checkpoints.store import bodies
from checkpoints.contract import configured
from checkpoints import store
from checkpoints.models import Checkpoint
rows = list(Checkpoint.objects.all())
assert all(store.load(row) is not None for row in rows)
print(configured.primary().__class__.__name__, len(rows), sum(bodies.elsewhere(row.body) for row in rows))
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowStack]:
    """Tables, people and a beat; each test starts the rest, on its backend."""
    stack = make_slow_stack(tmp_path_factory.mktemp("backends"), "backends")
    try:
        stack.beat()
        yield stack
    finally:
        stack.stop()


@pytest.mark.parametrize(
    ("url", "name"), [("redis:", "RedisStore"), ("file://{folder}/kept", "FileStore")]
)
def test_a_killed_worker_is_replaced_and_goes_on_from_the_stored_state(own, url, name):
    """S2-5, S2-7, S2-28, S2-32, S2-33, P3, P5: kill -9 in mid-run; and a pause that outlives every
    process there is.
    """
    own.environment["CHECKPOINTS_URL"] = (
        f"{url.format(folder=own.folder)} database: redis: file://{own.folder}/kept"
    )
    web, victim = own.web(), own.worker("victim")
    token = TOKENS["ana"]
    run, asking = own.begin("slow-ticks", token), own.begin("slow-asking", token)
    key = until(lambda: own.order(run, token)["run_id"], what="the run", every=0.2)
    own.paused(asking, token, "awaiting_plan_approval")
    until(lambda: len(own.noted("done", key)) > 3, what="some steps")
    own.kill(victim)
    own.kill(web)
    done = set(own.noted("done", key)[:-1])
    assert 0 < len(done) < 50
    web, heir = own.web(), own.worker("heir")
    own.answer(asking, token, "approve")
    own.ended(asking, token)
    # asking would take a server's time
    until(lambda: len(own.noted("done", key)) >= 50, what="its steps")
    own.ended(run, token)
    own.kill(heir)
    own.kill(web)
    began = Counter(own.noted("began", key))
    assert len(began) == 50
    assert sorted(began.values())[-2:] <= [1, 2]  # the one at work when the kill came
    assert all(began[one] == 1 for one in done)
    kind, rows, elsewhere = own.manage("shell", "-v0", "-c", COUNT).split()[-3:]
    assert kind == name
    assert int(elsewhere) == int(rows) > 50
