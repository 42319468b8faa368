"""The settings that a process makes for itself where the environment names none."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import redis
from django.core.cache.backends.redis import RedisCache
from django.core.exceptions import ImproperlyConfigured

from runs import env
from tests.programs.begun import Begun
from tests.servers.stack import ROOT

TOGETHER = 12


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "data"


def test_processes_that_start_at_once_in_an_empty_folder_agree_on_one_secret_key(folder):
    """Before: the file was made empty and filled a moment later, so that a second process read an
    empty key, and did not start, or two had different ones.
    """
    together = Barrier(TOGETHER)

    def start() -> str:
        together.wait()
        return env.secret_key(folder, empty=False)

    with ThreadPoolExecutor(TOGETHER) as pool:
        keys = {future.result() for future in [pool.submit(start) for _ in range(TOGETHER)]}
    assert len(keys) == 1 and len(keys.pop()) > 50
    assert (folder / "secret_key").stat().st_mode & 0o777 == 0o600


def test_a_key_that_a_killed_process_left_empty_is_made_anew_and_kept(folder):
    """Before: no process started in that folder any more until somebody deleted the file."""
    folder.mkdir()
    (folder / "secret_key").touch(mode=0o600)
    keys = {env.secret_key(folder, empty=False) for _ in range(2)}
    assert keys == {(folder / "secret_key").read_text()} and "" not in keys


def test_a_setting_under_the_name_that_it_had_before_is_refused(monkeypatch):
    for name in ("ALLOWED_GROUPS", "SESSION_HOURS"):
        with monkeypatch.context() as environment:
            environment.setenv(f"WAYSTATION_OIDC_{name}", "8")
            words = f"WAYSTATION_OIDC_{name} is called WAYSTATION_SSO_{name} now: rename it, or"
            with pytest.raises(ImproperlyConfigured, match=words):
                env.refuse_former()


def test_such_a_setting_stops_the_start(tmp_path):
    """Without effect, it would let everybody in."""
    name = "WAYSTATION_OIDC_ALLOWED_GROUPS"
    environment = {**os.environ, "WAYSTATION_DATA": str(tmp_path), name: "ops"}
    words = ("manage.py", "showmigrations", "--plan")
    done = Begun(*words, environment=environment, of_product=False).ended()
    assert done.returncode != 0
    assert done.stderr.strip().endswith("now: rename it, or remove it")


def test_an_extension_that_is_none_is_refused_with_those_that_there_are(monkeypatch):
    monkeypatch.setenv("WAYSTATION_EXTENSIONS", "langgraph,Mcp")
    with pytest.raises(ImproperlyConfigured) as refused:
        env.extensions("WAYSTATION_EXTENSIONS", ROOT / "extensions", ["mcp"])
    said = str(refused.value)
    assert "WAYSTATION_EXTENSIONS: there is no extension 'Mcp'; there are agui, " in said
    assert ", mcp" in said.rpartition("there are")[2]


def test_requests_share_a_process_connections_to_redis():
    """Django makes a cache for each request that ASGI serves: each had connections of its own,
    which stayed open until the next garbage collection. Found by the soak (issue 20, 8).
    """
    options = {"pool_class": "hitl.host.redis.cache.SharedPool", "client_name": "one-pool"}
    location = os.environ["TEST_REDIS_URL"]
    kept = []
    for number in range(20):
        kept.append(RedisCache(location, {"OPTIONS": options}))
        kept[-1].set("which", number)
        assert kept[-1].get("which") == number
    with redis.Redis.from_url(location) as server:
        named = [one for one in server.client_list() if one["name"] == "one-pool"]
    assert len(named) == 1
