"""The contract of `checkpoints.contract.base.CheckpointStore` as tests, for every backend there is
and for yours:

    class TestMyStore(CheckpointContract):
        def setting(self):
            return {"BACKEND": "shop.stores.MyStore", "OPTIONS": {"path": "/var/lib/shop"}}

        def damage(self, store, thread_id, checkpoint_id):
            ...  # change the stored bytes of that checkpoint's state

        def failing(self, store):
            ...  # a context manager in which a write stops half-way with an exception

Needs pytest, and nothing of Waystation's own tests. A backend that is not `durable` is asked to
show that it says so.
"""

import pytest

pytest.register_assert_rewrite(
    *(f"{__name__}.{name}" for name in ("hooks", "writing", "lineage", "accidents", "processes"))
)

# pytest rewrites their asserts after the call above
from checkpoints.testing.accidents import Accidents  # noqa: E402
from checkpoints.testing.hooks import Hooks  # noqa: E402  # as above
from checkpoints.testing.lineage import Lineage  # noqa: E402  # as above
from checkpoints.testing.processes import Processes  # noqa: E402  # as above
from checkpoints.testing.writing import Writing  # noqa: E402  # as above

__all__ = ["CheckpointContract", "Hooks"]


class CheckpointContract(Writing, Lineage, Accidents, Processes):
    """All of it."""
