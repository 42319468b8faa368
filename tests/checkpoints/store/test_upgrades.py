"""What any release wrote is read by this one (S3-41): stored fixtures of every version, none of
them ever changed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from pathlib import Path

import pytest
from django.contrib.auth.models import User

from checkpoints import store
from checkpoints.models import Checkpoint, CheckpointStatus, Chunk, Thread
from checkpoints.state import codec, reducers
from checkpoints.store import CheckpointDamaged, Entry, upgrades
from tests.databases.encryption_keys import NEW, keys

pytestmark = pytest.mark.django_db
FOLDER = Path(__file__).parent
FIRST = 2
"""The first that was released."""
VERSIONS = range(FIRST, upgrades.SCHEMA_VERSION + 1)
SEALED = {2: "4dfff325666a02af"}
"""How each fixture's sha256 begins: they say what was released, so they never change."""


def fixture(version):
    path = FOLDER / f"version_{version}.json"
    assert path.exists(), (
        f"SCHEMA_VERSION is {upgrades.SCHEMA_VERSION}: write {path.name} with the code that "
        "releases it"
    )
    return json.loads(path.read_text())


def write(version):
    """The rows as that release wrote them, with what it stored of each."""
    known = fixture(version)
    thread = Thread.objects.create(owner=User.objects.create_user("keeper"))
    for chunk in known.get("chunks", []):
        content = base64.b64decode(chunk["content"])
        Chunk.objects.create(digest=chunk["digest"], previous_id=chunk["previous"], content=content)
    parent, rows = None, []
    for row in known["rows"]:
        stored = {key: row[key] for key in ("is_snapshot", "depth", "digest", "size")}
        same = {
            "thread": thread,
            "run_id": uuid.uuid4(),
            "status": "active",
            "schema_version": version,
        }
        parent = Checkpoint.objects.create(
            parent=parent, body=codec.Text(row["body"]), **same, **stored
        )
        rows.append((Checkpoint.objects.get(pk=parent.pk), row["state"]))
    return rows


@pytest.mark.parametrize("version", VERSIONS)
def test_every_released_version_loads_for_ever(version):
    """S3-41: the digest that the release took still matches, and the state is the same to the
    letter.
    """
    rows = write(version)
    for checkpoint, text in rows:
        state = store.load(checkpoint)
        assert text is None or codec.encode(state) == text
    assert sum(text is not None for _, text in rows) >= 5


@pytest.mark.parametrize("version", VERSIONS)
def test_history_goes_on_from_every_version(version):
    head, _ = write(version)[-1]
    state = store.load(head)
    for number in range(store.SNAPSHOT_EVERY + 2):
        after = reducers.apply(state, {"n": number}, {})
        entry = Entry(status=CheckpointStatus.ACTIVE)
        head, state = (
            store.save(head.thread_id, uuid.uuid4(), after, entry, parent=head, before=state),
            after,
        )
        assert store.load(Checkpoint.objects.get(pk=head.pk)) == state
    assert head.schema_version == upgrades.SCHEMA_VERSION


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_loads_encrypted_too(version):
    with keys(NEW):
        rows = write(version)
        assert store.load(rows[-1][0])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_fixture_holds_what_its_release_wrote(version):
    assert (
        hashlib.sha256((FOLDER / f"version_{version}.json").read_bytes())
        .hexdigest()
        .startswith(SEALED[version])
    )


def test_every_older_version_has_a_way_up():
    """SCHEMA_VERSION cannot grow without one, nor without a fixture."""
    assert sorted(upgrades.VERSIONS) == list(VERSIONS)[:-1]
    assert [path.name for path in sorted(FOLDER.glob("version_*.json"))] == [
        f"version_{version}.json" for version in VERSIONS
    ]
    assert sorted(SEALED) == list(VERSIONS)


def test_the_newest_fixture_is_of_what_is_written_now():
    """All kinds of body that there are: snapshots with and without chunks, deltas that set, unset,
    extend and go inside.
    """
    bodies = [json.loads(row["body"]) for row in fixture(upgrades.SCHEMA_VERSION)["rows"]]
    assert {key for body in bodies for key in body} == {
        "state",
        "long",
        "set",
        "unset",
        "extend",
        "in",
    }
    assert any(body.get("unset") for body in bodies)


def passing(version):
    """An upgrade that leaves its mark."""

    @upgrades.register(version, digest=lambda state: f"digest {version}")
    def upgrade(body, is_snapshot):
        return {**body, "passed": [*body.get("passed", []), version]}


def test_upgrades_are_chained(monkeypatch):
    """As two releases from now: a body of version 2 passes through every step, a digest is taken as
    its own version took it.
    """
    monkeypatch.setattr(upgrades, "VERSIONS", dict(upgrades.VERSIONS))
    monkeypatch.setattr(upgrades, "SCHEMA_VERSION", 4)
    for version in (2, 3):
        passing(version)
    assert upgrades.current(2, {"a": 1}, is_snapshot=True) == {"a": 1, "passed": [2, 3]}
    assert upgrades.current(3, {}, is_snapshot=False) == {"passed": [3]}
    assert upgrades.current(4, {"x": 1}, is_snapshot=True) == {"x": 1}
    assert upgrades.digest(3, codec.state({})) == "digest 3"


def test_a_version_is_registered_once(monkeypatch):
    monkeypatch.setattr(upgrades, "VERSIONS", {})
    passing(2)
    with pytest.raises(ValueError, match="registered already"):
        passing(2)


@pytest.mark.parametrize("version", [0, FIRST - 1, upgrades.SCHEMA_VERSION + 1])
def test_a_version_that_nobody_knows_is_damage(version):
    """C24: also one that a newer release wrote, after a release was taken back."""
    rows = write(FIRST)
    Checkpoint.objects.filter(pk=rows[0][0].pk).update(schema_version=version)
    words = "newer version" if version > upgrades.SCHEMA_VERSION else "does not match"
    with pytest.raises(CheckpointDamaged, match=words):
        store.load(Checkpoint.objects.get(pk=rows[0][0].pk))
    with pytest.raises(CheckpointDamaged):
        store.load(Checkpoint.objects.get(pk=rows[1][0].pk))
