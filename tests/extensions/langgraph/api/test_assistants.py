"""Assistants of LangGraph's own client: saved configurations of a template that one may order."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from extensions.langgraph.api import assistants, threads
from hitl.live.pump import StreamRefused
from hitl.models import LangGraphAssistant, LangGraphAssistantVersion
from runs import limits
from runs.models import TemplateAccess
from tests.doors.langgraph import refused, sdk_of, sent

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]
ABOUT = {"suite": "mine", "colour": "red"}


@pytest.fixture
def sdk(templates, ana):
    return sdk_of(ana)


def test_one_is_made_found_changed_set_back_and_removed(sdk):
    own = sdk.assistants
    made = own.create("writing", name="Mine", description="Of Ana", metadata=ABOUT)
    key = made["assistant_id"]
    assert (made["graph_id"], made["version"], made["metadata"]) == ("writing", 1, ABOUT)
    assert own.get(key) == made
    assert own.search(metadata={"suite": "mine"}) == [made]
    assert own.count(name="mine") == own.count(graph_id="writing") - 1 == 1
    changed = own.update(key, metadata={"colour": "blue"}, graph_id="writing-quick")
    assert (changed["version"], changed["graph_id"], changed["name"]) == (
        2,
        "writing-quick",
        "Mine",
    )
    assert changed["metadata"] == {"suite": "mine", "colour": "blue"}
    assert [one["version"] for one in own.get_versions(key)] == [2, 1]
    first = own.get_versions(key)[1]
    assert (first["metadata"], first["graph_id"]) == (ABOUT, "writing")
    assert [one["version"] for one in own.get_versions(key, metadata={"colour": "red"})] == [1]
    assert [one["version"] for one in own.get_versions(key, limit=1, offset=1)] == [1]
    back = own.set_latest(key, 1)
    assert (back["version"], back["metadata"], back["graph_id"]) == (1, ABOUT, "writing")
    assert own.get(key) == back
    assert own.update(key, name="New")["version"] == 3
    assert refused(own.set_latest, key, 7)[0] == 404
    assert own.get_schemas(key)["graph_id"] == "writing"
    nodes = [node["id"] for node in own.get_graph(key)["nodes"]]
    assert nodes[1:4] == ["planning", "execute", "review"]  # its steps have no names of their own
    own.delete(key)
    assert refused(own.get, key)[0] == 404
    assert not LangGraphAssistantVersion.objects.exists()


def test_a_run_begun_with_one_takes_its_template_and_its_metadata(sdk, ana, team, ben):
    key = sdk.assistants.create("writing", metadata=ABOUT)["assistant_id"]
    thread = sdk.threads.create(metadata={"waystation_team": team.name})["thread_id"]
    given = {"metadata": {"colour": "green"}, "input": {"topic": "Rome"}}
    run: Any = sdk.runs.create(thread, key, **given)
    assert (run["assistant_id"], run["metadata"]) == (key, {"suite": "mine", "colour": "green"})
    assert sdk.runs.get(thread, run["run_id"]) == run
    known = sdk.threads.get(thread)["metadata"]
    assert (known["assistant_id"], known["graph_id"]) == (key, "writing")
    for about in ({"assistant_id": key}, {"graph_id": "writing"}):
        assert [one["thread_id"] for one in sdk.threads.search(metadata=about)] == [thread]
    # a version counts from when it is made, for runs that begin then
    sdk.assistants.update(key, metadata={"colour": "blue"})
    assert sdk.runs.get(thread, run["run_id"])["metadata"]["colour"] == "green"
    behind: Any = sdk.runs.create(thread, key, input={"topic": "Oslo"})
    assert (behind["assistant_id"], behind["metadata"]["colour"]) == (key, "blue")
    plain: Any = sdk.runs.create(thread, "writing", input={"topic": "Bonn"})
    assert plain["assistant_id"] != key and plain["metadata"] == {}
    # it goes, and what was begun with it stays
    sdk.assistants.delete(key)
    assert sdk.runs.get(thread, run["run_id"]) == run
    assert refused(sdk.runs.create, thread, key, input={})[0] == 404
    # who shares the thread begins nothing with another's
    theirs = sdk.assistants.create("writing")["assistant_id"]
    assert refused(sdk_of(ben).runs.create, thread, theirs, input={})[0] == 404


def test_others_see_none_of_it(sdk, ben, zoe):
    key = sdk.assistants.create("writing", metadata=ABOUT)["assistant_id"]
    for other in (ben, zoe):
        theirs = sdk_of(other).assistants
        assert theirs.search(metadata={"suite": "mine"}) == []
        assert theirs.count(graph_id="writing") == 1
        for act, args in (
            (theirs.get, (key,)),
            (theirs.update, (key,)),
            (theirs.delete, (key,)),
            (theirs.get_versions, (key,)),
            (theirs.set_latest, (key, 1)),
            (theirs.get_schemas, (key,)),
        ):
            assert refused(act, *args)[0] == 404
        for word in ("raise", "do_nothing"):
            status, said = refused(
                theirs.create, "writing", assistant_id=key, if_exists=word, metadata={"a": 1}
            )
            assert (status, "already" in said) == (409, True)
    assert sdk.assistants.get(key)["metadata"] == ABOUT


def test_an_assistant_that_is_a_template_is_not_changed(sdk):
    own = sdk.assistants
    shipped = own.search(graph_id="writing")[0]
    key = shipped["assistant_id"]
    for act, args in ((own.update, (key,)), (own.delete, (key,)), (own.set_latest, (key, 1))):
        status, said = refused(act, *args)
        assert (status, "is a template" in said) == (403, True)
    assert own.get_versions(key) == [shipped]
    assert refused(own.create, "writing", assistant_id=key)[0] == 409


def test_an_id_of_the_clients_is_kept_once(sdk):
    key = str(uuid.uuid4())
    made = sdk.assistants.create("writing", assistant_id=key, metadata=ABOUT)
    assert made["assistant_id"] == key
    assert refused(sdk.assistants.create, "writing", assistant_id=key)[0] == 409
    again = sdk.assistants.create("writing", assistant_id=key, if_exists="do_nothing", name="x")
    assert again == made
    assert refused(sdk.assistants.create, "writing", assistant_id="mine")[0] == 422
    assert LangGraphAssistant.objects.count() == 1


def test_what_would_change_nothing_is_refused(sdk, subtests, monkeypatch):
    own = sdk.assistants
    key = own.create("writing")["assistant_id"]
    cases: list[tuple[dict[str, Any], int]] = [
        ({"config": {"configurable": {"model": "x"}}}, 422),
        ({"config": {"tags": ["a"]}}, 422),
        ({"context": {"model": "x"}}, 422),
        ({"graph_id": "no-such"}, 404),
        ({"name": "x" * 121}, 422),
        ({"name": "\0"}, 422),
        ({"description": "x" * 1001}, 422),
        ({"metadata": {str(number): 1 for number in range(51)}}, 422),
        ({"metadata": {"a": "x" * limits.ASSISTANT_BYTES}}, 422),
    ]
    for wrong, status in cases:
        with subtests.test(ascii(wrong)[:60]):
            assert refused(own.create, **{"graph_id": "writing", **wrong})[0] == status
            assert refused(own.update, key, **wrong)[0] == status
    words = refused(own.delete, key, delete_threads=True)
    assert words[0] == 422 and "one by one" in words[1]
    assert (own.get(key)["version"], LangGraphAssistant.objects.count()) == (1, 1)
    assert own.create("writing", config={"configurable": {}}, context={})["config"] == {}


def test_a_person_has_so_many_of_so_many_versions(sdk, ben, monkeypatch):
    """P12: ASSISTANTS, ASSISTANT_VERSIONS."""
    monkeypatch.setattr(limits, "ASSISTANTS", 1)
    monkeypatch.setattr(limits, "ASSISTANT_VERSIONS", 2)
    key = sdk.assistants.create("writing")["assistant_id"]
    status, said = refused(sdk.assistants.create, "writing")
    assert (status, "no more" in said) == (422, True)
    sdk_of(ben).assistants.create("writing")
    for number in range(3):
        sdk.assistants.update(key, metadata={"number": number})
    assert [one["version"] for one in sdk.assistants.get_versions(key)] == [4, 3]


def test_one_goes_with_its_account(templates, zoe):
    sdk_of(zoe).assistants.create("writing")
    zoe.delete()
    assert not LangGraphAssistant.objects.exists()


def test_who_may_order_its_template_no_more_begins_nothing_with_it(sdk):
    key = sdk.assistants.create("writing")["assistant_id"]
    thread = sdk.threads.create()["thread_id"]
    TemplateAccess.objects.create(slug="writing", enabled=False)
    assert refused(sdk.runs.create, thread, key, input={"topic": "x"})[0] == 404
    assert refused(sdk.assistants.create, "writing")[0] == 404
    assert sdk.assistants.get(key)["graph_id"] == "writing"  # to be changed, or deleted
    assert sdk.assistants.update(key, graph_id="writing-quick")["graph_id"] == "writing-quick"


@pytest.mark.parametrize("scope", ["read", "ask", "answer"])
def test_a_narrow_token_makes_none(sdk, ana, scope):
    key = sdk.assistants.create("writing", metadata=ABOUT)["assistant_id"]
    own = sdk_of(ana, scope).assistants
    for act, args in (
        (own.create, ("writing",)),
        (own.update, (key,)),
        (own.delete, (key,)),
        (own.set_latest, (key, 1)),
    ):
        assert refused(act, *args)[0] == 403
    if scope == "answer":
        assert refused(own.get_versions, key)[0] == 403
    else:
        assert len(own.get_versions(key)) == len(own.search(metadata=ABOUT)) == 1


def test_a_threads_title_is_what_its_metadata_says(sdk, ana):
    sdk.threads.create(metadata={"title": "Trip to Rome"})
    sdk.threads.create(metadata={"title": "x" * 300})
    sdk.threads.create(metadata={"title": 5})
    titles = set(ana.threads.values_list("title", flat=True))
    assert titles == {"Trip to Rome", "x" * 200, ""}


def test_of_two_that_make_one_of_the_same_id_at_once_both_have_it(sdk, monkeypatch):
    """Workers that start together, each with `do_nothing`: the second one looked too early."""
    key, known = str(uuid.uuid4()), assistants.saved_as
    sdk.assistants.create("writing", assistant_id=key, name="Mine")
    looks = iter([None])
    monkeypatch.setattr(assistants, "saved_as", lambda *of: next(looks, known(*of)))
    again = sdk.assistants.create("writing", assistant_id=key, if_exists="do_nothing")
    assert (again["assistant_id"], again["name"]) == (key, "Mine")


def test_of_two_changes_of_a_threads_metadata_at_once_both_stay(sdk, monkeypatch):
    key = sdk.threads.create(metadata={"first": 1})["thread_id"]
    find, other = threads.find, [True]

    def find_then_wait(call):
        found = find(call)
        if other:
            other.clear()
            sdk.threads.update(key, metadata={"second": 2})
        return found

    monkeypatch.setattr(threads, "find", find_then_wait)
    sdk.threads.update(key, metadata={"third": 3})
    kept = {"first": 1, "second": 2, "third": 3}
    assert kept.items() <= sdk.threads.get(key)["metadata"].items()
    assert [one["thread_id"] for one in sdk.threads.search(metadata=kept)] == [key]


def test_threads_without_a_run_are_sorted_by_when_they_were_made(sdk):
    old = sdk.threads.create()["thread_id"]
    ran = sdk.threads.create()["thread_id"]
    sdk.runs.create(ran, "writing", input={"topic": "Rome"})
    new = sdk.threads.create()["thread_id"]
    rising = [old, ran, new]
    for order, keys in (("asc", rising), ("desc", rising[::-1])):
        found = sdk.threads.search(sort_by="updated_at", sort_order=order)
        assert [one["thread_id"] for one in found] == keys


@pytest.mark.parametrize("value", [["writing"], {"a": 1}])
def test_a_search_for_what_no_template_is_called_finds_nothing(sdk, value):
    thread = sdk.threads.create()["thread_id"]
    sdk.runs.create(thread, "writing", input={"topic": "Rome"})
    for name in ("graph_id", "assistant_id"):
        assert sdk.threads.search(metadata={name: value}) == []


def test_a_page_beyond_all_pages_is_refused(sdk, ana):
    with pytest.raises(StreamRefused, match="offset"):
        sent(ana, "POST", "/threads/search", {"offset": 10**30})
