"""One contract, four backends (S2-2, S2-6, S2-25, S2-27, S3-44, S3-52); the one of rows on both databases."""

from __future__ import annotations

import pytest

from checkpoints.testing import CheckpointContract
from tests.checkpoints.backends import InMemory, InRows, OnFiles, OnRedis
from tests.checkpoints.backends import file_database as file_database


class TestMemoryStore(InMemory, CheckpointContract):
    pass


class TestFileStore(OnFiles, CheckpointContract):
    pass


class TestRedisStore(OnRedis, CheckpointContract):
    pass


@pytest.mark.django_db(transaction=True)
class TestDatabaseStore(InRows, CheckpointContract):
    pass
