"""What may be in a LangGraph payload, how damage to one is found, and the small parts of the
saver.
"""

from __future__ import annotations

import dataclasses
import pickle
import subprocess
import sys
import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from checkpoints import store
from checkpoints.models import Checkpoint
from checkpoints.models.graphs import GraphBlob, GraphCheckpoint, GraphWrite
from checkpoints.store import CheckpointDamaged, graph_state
from checkpoints.store import graph_keys as keys
from checkpoints.store.graph_state import ChannelValue, value_of
from extensions.langgraph.saver import DjangoSaver, PayloadRefused, StrictSerializer
from tests.databases.whole import file_database
from tests.extensions.langgraph.saver import graphs
from tests.extensions.langgraph.saver.saving import change, config, put, values
from tests.extensions.langgraph.saver.saving import owner as owner
from tests.extensions.langgraph.saver.saving import saver as saver

__all__ = ["file_database"]


@dataclasses.dataclass
class Mine:
    number: int


def test_a_type_that_is_not_allowed_is_refused_at_write(saver, owner):
    """F15: not when somebody resumes a week later."""
    for bad in (Mine(1), [Mine(1)], {"deep": [{"er": Mine(1)}]}, lambda: None):
        with pytest.raises(PayloadRefused, match=r"Mine|serializable"):
            put(saver, {"a": bad})
        with pytest.raises(PayloadRefused):
            saver.put_writes(config(checkpoint_id=str(uuid6())), [("a", bad)], "task")
    assert not GraphBlob.objects.exists()
    allowing = DjangoSaver(owner=owner, serde=StrictSerializer(allow=[Mine]))
    put(allowing, {"a": [Mine(1)]})
    assert values(allowing) == {"a": [Mine(1)]}
    with pytest.raises(PayloadRefused, match="Mine"):
        saver.get_tuple(config())
    assert values(saver.with_allowlist([(Mine.__module__, "Mine")])) == {"a": [Mine(1)]}
    allowing.close()


def test_a_new_item_of_a_long_list_is_looked_at_as_well(saver):
    at = put(saver, {"log": ["x" * 300]})
    with pytest.raises(PayloadRefused):
        put(saver, {"log": ["x" * 300, Mine(1)]}, parent=at)
    assert values(saver) == {"log": ["x" * 300]}


def test_a_pickle_is_never_read(saver):
    """F15."""
    at = put(saver, {})
    saver.put_writes(at, [("a", "x")], "task")
    change(GraphWrite, kind="pickle", content=pickle.dumps({"a": 1}))
    with pytest.raises(PayloadRefused, match="'pickle'"):
        saver.get_tuple(config())


def test_a_serializer_that_unpickles_is_replaced_or_refused(owner):
    with DjangoSaver(owner=owner, serde=JsonPlusSerializer(pickle_fallback=True)) as saver:
        assert isinstance(saver.serde, StrictSerializer)
        with pytest.raises(PayloadRefused):
            put(saver, {"a": lambda: None})

    class Pickles:
        def dumps(self, value: Any) -> bytes:
            return pickle.dumps(value)

        def loads(self, data: bytes) -> Any:
            return pickle.loads(data)

    old: Any = Pickles()
    with DjangoSaver(owner=owner, serde=old) as saver, pytest.raises(PayloadRefused, match="kind"):
        put(saver, {"a": [1]})


class Backwards:
    """Not much of a cipher."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "backwards", plaintext[::-1]

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        return ciphertext[::-1]


def test_an_encrypting_serializer_keeps_values_from_whoever_looks(owner):
    with DjangoSaver(owner=owner, serde=EncryptedSerializer(Backwards())) as saver:
        graph = graphs.looping(saver, times=5)
        graph.invoke({"log": ["secret"]}, config())
        assert len(graph.get_state(config()).values["log"]) == 5
        assert "secret" not in str(store.load(Checkpoint.objects.latest("pk")))
        assert "backwards" in str(store.load(Checkpoint.objects.latest("pk")))
        saver.prune(["t"])
        assert len(graph.get_state(config()).values["log"]) == 5
        with pytest.raises(PayloadRefused):
            put(saver, {"a": Mine(1)})


@pytest.mark.parametrize("what", ["checkpoint", "blob", "blob gone", "unpacked"])
def test_damage_is_found_and_nothing_resumed(saver, what):
    """F24: never a silent fresh start."""
    graphs.looping(saver, times=5).invoke({"log": ["in " * 200]}, config())
    last = Checkpoint.objects.latest("pk")
    match what:
        case "checkpoint":
            change(GraphCheckpoint, content=b"\x80")
        case "blob":
            GraphBlob.objects.filter(base=None).update(kind="msgpack", content=b"\xa1x")
        case "blob gone":
            GraphBlob.objects.filter(base__isnull=False).delete()
        case "unpacked":
            GraphBlob.objects.filter(kind="z:msgpack").update(content=b"no zlib")
    saver._rows.forget()
    with pytest.raises(CheckpointDamaged, match="ckpt_"):
        saver.get_tuple(config())
    with pytest.raises(CheckpointDamaged, match="ckpt_"):
        store.load(last)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=20),
    max_leaves=40,
)


@given(json_like)
def test_a_value_taken_apart_is_put_together_again(value):
    kind, data = StrictSerializer().dumps_typed(value)
    assert value_of(kind, data).payload() == (kind, data)


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 65535, 65536])
def test_lists_of_every_length_are_taken_apart(length):
    from langgraph.checkpoint.serde.types import _DeltaSnapshot

    serde = StrictSerializer()
    for value in ([1] * length, _DeltaSnapshot([1] * length)):
        apart = value_of(*serde.dumps_typed(value))
        assert (apart.items, len(apart.data)) == (length, length)
        assert serde.loads_typed(apart.payload()) == value


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(st.sampled_from(["append", "cut", "same", "replace"]), st.integers(0, 400)),
        min_size=1,
        max_size=50,
    )
)
def test_every_version_of_a_list_is_read_as_it_was_written(saver, moves):
    """Grown, cut, repeated, replaced: of each checkpoint the value of then."""
    saver.delete_thread("t")
    at, log, expected = config(), ["first " * 60], []
    for number, (move, size) in enumerate(moves):
        match move:
            case "append":
                log = [*log, f"{number}" + "x" * size]
            case "cut":
                log = log[:-1]
            case "replace":
                log = [f"{number}" + "y" * size, *log[1:]]
        at = put(saver, {"log": log}, parent=at)
        expected.append(log)
    saver._rows.forget()
    assert [
        found.checkpoint["channel_values"]["log"] for found in saver.list(config())
    ] == expected[::-1]


@given(st.lists(st.integers(0, 2**40), min_size=2, max_size=20, unique=True))
def test_our_ids_sort_as_theirs(ticks):
    made = [
        uuid.UUID(
            int=(tick + keys.GREGORIAN) >> 12 << 80
            | 6 << 76
            | ((tick + keys.GREGORIAN) & 0xFFF) << 64
            | 2 << 62
        )
        for tick in ticks
    ]
    ours = [keys.checkpoint_pk(1, key) for key in made]
    assert sorted(range(len(made)), key=lambda n: made[n]) == sorted(
        range(len(made)), key=lambda n: ours[n]
    )
    assert all(our.version == 7 for our in ours)
    assert len({keys.checkpoint_pk(namespace, made[0]) for namespace in range(5)}) == 5


def test_waystation_starts_without_langgraph():
    """An optional dependency: the product asks for nothing of it, and who asks for the saver is
    told what to install.
    """
    code = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"langgraph", "langchain_core", "ormsgpack", "langsmith"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
import django, os
os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
django.setup()
import project.urls, project.asgi, extensions.langgraph.saver
from checkpoints.store import graph_state
assert graph_state._plain("msgpack", b"x")["bytes"] == 1
try:
    from extensions.langgraph.saver import DjangoSaver
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install -r extensions/langgraph/requirements.txt" in done.stdout, done.stderr


def test_a_text_of_any_length_comes_back(saver):
    texts = {str(size): "ä" * size for size in (0, 255, 256, 257, 100_000)}
    at = put(saver, texts)
    put(saver, {**texts, "more": 1}, parent=at)
    assert values(saver) == {**texts, "more": 1}


def test_a_value_is_what_it_was_when_it_was_written():
    assert ChannelValue(kind="msgpack", data=b"\x01", items=1).payload() == ("msgpack", b"\x91\x01")
    assert graph_state.unpack(*graph_state.pack("bytes", b"z" * 1000)) == ("bytes", b"z" * 1000)
