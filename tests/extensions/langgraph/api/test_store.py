"""The store of LangGraph's clients, through the released client (issue 38)."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.security import key_rotation
from extensions.langgraph.storing import entries, namespaces
from hitl.live.pump import StreamRefused
from hitl.models import LangGraphItem
from runs import limits
from tests.databases.encryption_keys import NEW, OLD, dump, keys
from tests.doors.langgraph import refused, sdk_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def store(ana):
    return sdk_of(ana).store


def found(store: Any, prefix: list[str], **wishes: Any) -> list[str]:
    return [item["key"] for item in store.search_items(prefix, **wishes)["items"]]


@pytest.mark.both_databases
def test_an_item_is_kept_found_changed_and_deleted(store):
    assert store.put_item(["users", "Zoë 7"], "likes", {"b": [1, None], "a": "ü\0"}) is None
    item = store.get_item(["users", "Zoë 7"], "likes")
    assert (item["namespace"], item["key"]) == (["users", "Zoë 7"], "likes")
    assert item["value"] == {"a": "ü\0", "b": [1, None]}
    assert item["created_at"] == item["updated_at"]
    store.put_item(["users", "Zoë 7"], "likes", {}, index=False)
    again = store.get_item(["users", "Zoë 7"], "likes")
    assert (again["value"], again["created_at"]) == ({}, item["created_at"])
    assert again["updated_at"] > item["updated_at"]
    store.delete_item(["users", "Zoë 7"], "likes")
    assert store.get_item(["users", "Zoë 7"], "likes") is None
    assert not LangGraphItem.objects.exists()
    assert store.delete_item(["users", "Zoë 7"], "likes") is None


@pytest.mark.both_databases
def test_items_are_searched_by_whole_labels_as_they_are_written_the_last_changed_first(store):
    """SQLite's LIKE would take `Docs` for `docs`, and % and _ are labels like others."""
    for number, space in enumerate((["docs"], ["docs", "a"], ["docs2"], ["Docs"], ["d%"], ["d_"])):
        store.put_item(space, f"k{number}", {})
    assert found(store, ["docs"]) == ["k1", "k0"]
    assert (found(store, ["d%"]), found(store, ["d_"])) == (["k4"], ["k5"])
    assert found(store, []) == ["k5", "k4", "k3", "k2", "k1", "k0"]
    store.put_item(["docs"], "k0", {"new": True})
    assert found(store, [], limit=2) == ["k0", "k5"]
    assert found(store, [], limit=2, offset=2) == ["k4", "k3"]
    assert found(store, ["docs"], refresh_ttl=False) == ["k0", "k1"]


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("wanted", "keys"),
    [
        ({"kind": "alpha"}, ["a", "c"]),
        ({"kind": "alpha", "size": 3}, ["a"]),
        ({"kind": {"$eq": "beta"}}, ["b"]),
        ({"kind": {"$ne": "beta"}}, ["a", "c"]),
        ({"size": 3}, ["a"]),
        ({"size": {"$gt": 3, "$lte": 5}}, ["b"]),
        ({"size": {"$gte": 3}}, ["a", "b"]),
        ({"size": {"$lt": "9"}}, []),
        ({"size": True}, ["c"]),
        ({"deep": {"x": 1}}, ["b"]),
        ({"deep": {"$eq": {"x": 1}}}, []),
        ({"deep": {"$eq": {"x": 1, "$y": 2}}}, ["b"]),
        ({"none": "x"}, []),
    ],
)
def test_a_filter_compares_values_as_json(store, wanted, keys):
    store.put_item(["n"], "a", {"kind": "alpha", "size": 3.0})
    store.put_item(["n"], "b", {"kind": "beta", "size": 5, "deep": {"x": 1, "$y": 2}})
    store.put_item(["n"], "c", {"kind": "alpha", "size": True})
    store.put_item(["m"], "z", {"kind": "alpha", "size": 3})
    assert sorted(found(store, ["n"], filter=wanted)) == keys
    assert found(store, ["n"], filter=wanted, limit=1, offset=1) == keys[::-1][1:2]


@pytest.mark.both_databases
def test_namespaces_are_listed_once_by_what_they_begin_and_end_with(store):
    for space in (["a", "x", "end"], ["a", "y", "end"], ["a", "y"], ["b", "x", "end"], ["end"]):
        store.put_item(space, "1", {})
        store.put_item(space, "2", {})

    def listed(**wishes: Any) -> list[str]:
        return ["/".join(labels) for labels in store.list_namespaces(**wishes)["namespaces"]]

    assert listed() == ["a/x/end", "a/y", "a/y/end", "b/x/end", "end"]
    assert listed(prefix=["a"]) == ["a/x/end", "a/y", "a/y/end"]
    assert listed(suffix=["x", "end"]) == ["a/x/end", "b/x/end"]
    assert listed(prefix=["*", "x"]) == ["a/x/end", "b/x/end"]
    assert listed(prefix=["a"], suffix=["*", "end"], max_depth=1) == ["a"]
    assert listed(max_depth=2, limit=2, offset=1) == ["a/y", "b/x"]


@given(st.lists(st.text(st.characters(exclude_characters="."), max_size=5), max_size=12))
def test_what_is_taken_as_a_namespace_comes_back_as_it_was(labels):
    try:
        text = namespaces.text_of(labels)
    except StreamRefused:
        well = all(label and label.isprintable() for label in labels)
        assert not well or not 0 < len(labels) <= limits.STORE_DEPTH
    else:
        assert namespaces.labels_of(text) == labels


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_every_value_fits_itself(value):
    assert entries._fits(value, value)


def test_nobody_else_has_ones_items(store, ana, ben, admin_user):
    store.put_item(["n"], "k", {"of": "ana"})
    for other in (ben, admin_user):
        theirs = sdk_of(other).store
        assert theirs.get_item(["n"], "k") is None
        assert theirs.search_items([])["items"] == []
        assert theirs.list_namespaces()["namespaces"] == []
        theirs.delete_item(["n"], "k")
        theirs.put_item(["n"], "k", {"of": "another"})
    assert store.get_item(["n"], "k")["value"] == {"of": "ana"}
    ana.delete()
    assert [item.owner for item in LangGraphItem.objects.order_by("pk")] == [ben, admin_user]


def test_each_scope_of_a_token_does_what_it_is_for(store, ana):
    store.put_item(["n"], "k", {})
    for scope in ("read", "ask"):
        reader = sdk_of(ana, scope).store
        assert reader.get_item(["n"], "k")["key"] == "k"
        assert (found(reader, []), reader.list_namespaces()["namespaces"]) == (["k"], [["n"]])
    for scope in ("read", "answer"):
        other = sdk_of(ana, scope).store
        assert refused(other.put_item, ["n"], "k", {"x": 1})[0] == 403
        assert refused(other.delete_item, ["n"], "k")[0] == 403
    for act in (lambda: other.get_item(["n"], "k"), lambda: other.search_items([])):
        assert refused(act)[0] == 403
    assert refused(other.list_namespaces)[0] == 403
    program = sdk_of(ana, "ask").store
    program.put_item(["n"], "k", {"x": 1})
    program.delete_item(["n"], "k")
    assert not LangGraphItem.objects.exists()


DEEP = ["x"] * (limits.STORE_DEPTH + 1)


@pytest.mark.parametrize(
    ("act", "words", "more", "says"),
    [
        ("put_item", ([], "k", {}), {}, "namespace"),
        ("put_item", (DEEP, "k", {}), {}, "namespace"),
        ("put_item", (["x" * 400], "k", {}), {}, "namespace"),
        ("put_item", ([""], "k", {}), {}, "namespace"),
        ("put_item", (["a\0"], "k", {}), {}, "namespace"),
        ("put_item", (["n"], "", {}), {}, "key"),
        ("put_item", (["n"], "k" * 201, {}), {}, "key"),
        ("put_item", (["n"], "k\n", {}), {}, "key"),
        ("put_item", (["n"], 5, {}), {}, "key"),
        ("put_item", (["n"], "k", [1]), {}, "value"),
        ("put_item", (["n"], "k", None), {}, "value"),
        ("put_item", (["n"], "k", {}), {"ttl": 5}, "ttl"),
        ("put_item", (["n"], "k", {}), {"index": ["a"]}, "index"),
        ("get_item", ([], "k"), {}, "namespace"),
        ("get_item", (["n"], ""), {}, "key"),
        ("delete_item", ([], "k"), {}, "namespace"),
        ("search_items", (DEEP,), {}, "namespace_prefix"),
        ("search_items", (["a", ""],), {}, "namespace_prefix"),
        ("search_items", (["n"],), {"query": "what I like"}, "query"),
        ("search_items", (["n"],), {"filter": {"a": {"$in": [1]}}}, "$in"),
        ("search_items", (["n"],), {"filter": {"a": {"b": {"$regex": "x"}}}}, "$regex"),
        ("search_items", (["n"],), {"filter": [1]}, "filter"),
        ("search_items", (["n"],), {"limit": 0}, "limit"),
        ("search_items", (["n"],), {"offset": -1}, "offset"),
        ("search_items", (["n"],), {"offset": 10**9}, "offset"),
        ("list_namespaces", (), {"prefix": DEEP}, "prefix"),
        ("list_namespaces", (), {"suffix": [""]}, "suffix"),
        ("list_namespaces", (), {"max_depth": 0}, "max_depth"),
        ("list_namespaces", (), {"limit": "many"}, "limit"),
    ],
)
def test_what_the_store_cannot_do_is_refused_in_words(store, act, words, more, says):
    status, told = refused(getattr(store, act), *words, **more)
    assert (status, says in told) == (422, True), told
    assert not LangGraphItem.objects.exists()


def test_labels_with_a_full_stop_are_refused_by_the_server_too(store):
    """The client refuses them itself; not every client does."""
    body = {"namespace": ["a.b"], "key": "k", "value": {}}
    assert refused(lambda: store.http.put("/store/items", json=body))[0] == 422


@pytest.mark.both_databases
def test_an_account_keeps_so_much_and_what_is_there_can_still_be_changed(store, ben, settings):
    """STORE_ITEMS, STORE_BYTES, STORE_VALUE_BYTES, STORE_DEPTH."""
    large = {"text": "x" * limits.STORE_VALUE_BYTES}
    assert "bytes" in refused(store.put_item, ["n"], "k", large)[1]
    settings.WAYSTATION_STORE_ITEMS = 2
    for key in ("a", "b"):
        store.put_item(["n"], key, {"text": "x" * 40})
    assert refused(store.put_item, ["n"], "c", {})[1].startswith("An account keeps up to 2 items")
    store.put_item(["n"], "b", {"text": "y" * 40})
    settings.WAYSTATION_STORE_BYTES = 110
    assert refused(store.put_item, ["n"], "b", {"text": "z" * 50})[0] == 422
    assert store.get_item(["n"], "b")["value"] == {"text": "y" * 40}
    sdk_of(ben).store.put_item(["n"], "c", {})
    store.delete_item(["n"], "a")
    store.put_item(["n"], "c", {})
    assert sorted(found(store, [])) == ["b", "c"]


def test_values_are_sealed_at_rest_and_in_no_log(store, caplog):
    caplog.set_level(logging.DEBUG)
    with keys(OLD):
        store.put_item(["n"], "k", {"token": "sesame"})
        assert "sesame" not in dump()
        assert found(store, ["n"], filter={"token": "sesame"}) == ["k"]
        assert refused(store.put_item, ["n"], "k", {"token": "sesame"}, ttl=1)[0] == 422
        assert "sesame" not in caplog.text
    with keys(NEW):
        assert refused(store.get_item, ["n"], "k")[0] == 503
        assert refused(store.search_items, [], filter={"token": "sesame"})[0] == 503
        store.put_item(["n"], "k", {"token": "new"})
        assert store.get_item(["n"], "k")["value"] == {"token": "new"}
    with keys(NEW, OLD):
        [column] = [one for one in key_rotation.rotate(dry_run=True) if "item" in one.column]
    assert column.column == "hitl_langgraphitem.value"
