"""What the contract's tests need of each backend of ours: how to damage it, and how its write fails
half-way.
"""

from __future__ import annotations

import json
import os
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import redis
from django.contrib.auth.models import User
from django.db import connection

from checkpoints.backends.file import FileStore
from checkpoints.models import Thread
from checkpoints.testing import Hooks
from checkpoints.testing.hooks import RUN
from tests.checkpoints.backends.driven import Driven
from tests.databases.whole import file_database as file_database


class Warm(Hooks):
    """Its processes begin warm; that they begin cold, as elsewhere, is tried in memory."""

    def _start(self, thread: uuid.UUID, what: str, **more: Any) -> Any:
        if what == "race":
            more["at"] -= 2  # they are ready sooner than such as begin cold
        order = {"setting": self.setting(), "thread": thread.hex, "run": RUN.hex, "do": what}
        inherited = {**os.environ}
        inherited.pop("DJANGO_SETTINGS_MODULE", None)
        return Driven(json.dumps({**order, **more}), {**inherited, **self.environment()})


class OnFiles(Warm):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "kept"

    def setting(self):
        return {
            "BACKEND": "checkpoints.backends.file.FileStore",
            "OPTIONS": {"folder": str(self.folder)},
        }

    def damage(self, store, thread_id, checkpoint_id):
        assert isinstance(store, FileStore)
        path = store._place(thread_id) / f"{checkpoint_id.hex}.body"
        path.write_text(forged(path.read_text()))

    @contextmanager
    def failing(self, store):
        """The disk is full when the head is to be written: the body is there already."""
        real = os.rename

        def rename(source: Any, target: Any) -> None:
            if Path(target).name == "head":
                raise OSError(28, "No space left on device")
            real(source, target)

        with mock.patch("os.rename", rename):
            yield


class OnRedis(Warm):
    @pytest.fixture(autouse=True)
    def _server(self) -> None:
        self.url, self.prefix = os.environ["TEST_REDIS_URL"], f"contract-{uuid.uuid4()}"

    def setting(self):
        return {
            "BACKEND": "checkpoints.backends.redis.RedisStore",
            "OPTIONS": {"url": self.url, "prefix": self.prefix},
        }

    def damage(self, store, thread_id, checkpoint_id):
        key = store._key(thread_id, "bodies")
        with redis.Redis.from_url(self.url, decode_responses=True) as client:
            client.hset(key, checkpoint_id.hex, forged(client.hget(key, checkpoint_id.hex)))

    @contextmanager
    def failing(self, store):
        """The connection is cut in the middle of the command that writes, at every try."""
        send = redis.connection.Connection.send_packed_command

        def cut(self: Any, command: Any, check_health: bool = True) -> None:
            parts = [command] if isinstance(command, (str, bytes)) else list(command)
            text = b"".join(
                part.encode() if isinstance(part, str) else bytes(part) for part in parts
            )
            if b"EVALSHA" not in text:
                send(self, command, check_health)
                return
            send(self, [text[: len(text) // 2]], check_health)
            self.disconnect()
            raise redis.ConnectionError("the cable was pulled")

        with mock.patch.object(redis.connection.Connection, "send_packed_command", cut):
            yield


class InMemory(Hooks):
    def setting(self):
        return {"BACKEND": "checkpoints.backends.memory.MemoryStore", "OPTIONS": {}}

    def damage(self, store, thread_id, checkpoint_id):
        bodies = store._threads[thread_id].bodies
        bodies[checkpoint_id] = forged(bodies[checkpoint_id])

    @contextmanager
    def failing(self, store):
        """No memory is left once the note is made."""
        with mock.patch("checkpoints.backends.documents.ThreadUpdate", side_effect=MemoryError):
            yield


class InRows(Warm):
    """On PostgreSQL, and on SQLite with a database in a file, so that other processes reach it."""

    @pytest.fixture(autouse=True)
    def _database(self, file_database: None) -> None:
        pass

    def setting(self):
        return {"BACKEND": "checkpoints.backends.database.DatabaseStore", "OPTIONS": {}}

    def environment(self):
        name = connection.settings_dict["NAME"]
        server = os.environ["DATABASE_URL"]
        url = (
            f"sqlite:///{name}"
            if connection.vendor == "sqlite"
            else server.replace("/postgres?", f"/{name}?")
        )
        return {"DJANGO_SETTINGS_MODULE": "tests.servers.small_settings", "DATABASE_URL": url}

    def new_thread(self):
        owner, _ = User.objects.get_or_create(username="owner")
        return Thread.objects.create(owner=owner).pk

    def damage(self, store, thread_id, checkpoint_id):
        with connection.cursor() as cursor:
            key = checkpoint_id if connection.vendor == "postgresql" else checkpoint_id.hex
            cursor.execute("SELECT body FROM checkpoints_checkpoint WHERE id = %s", [key])
            cursor.execute(
                "UPDATE checkpoints_checkpoint SET body = %s WHERE id = %s",
                [forged(cursor.fetchone()[0]), key],
            )

    @contextmanager
    def failing(self, store):
        """The connection is lost when the row is to be written: the head is moved already."""

        def lost(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
            if sql.startswith("INSERT INTO"):
                raise ConnectionError("the server is gone")
            return execute(sql, params, many, context)

        with connection.execute_wrapper(lost):
            yield


def forged(text: str) -> str:
    """The same with another number in it: valid JSON, and what somebody might change by hand."""
    changed = text.replace('"n":2', '"n":7')
    assert changed != text
    return changed
