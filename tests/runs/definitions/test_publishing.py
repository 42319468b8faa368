"""Declared workflows become versions of templates, by content."""

from __future__ import annotations

import sys
import threading
from io import StringIO

import pytest
from django.contrib.auth.models import Permission
from django.core.management import call_command
from django.db import OperationalError, connection

from runs import definitions, services
from runs.definitions import shipped
from runs.models import StepTemplate, Template
from runs.workflows import registry
from tests.conftest import drive, pause_of, state_at_head

AUTHOR = """
from typing import TypedDict
from runs.workflows import Done, Go, Report, step, use, workflow

class Kept(TypedDict):
    total: int
    parts: list[str]

@step("shop.count")
def count(state, context):
    return Go(update={{"total": {total}, "parts": ["a"], "free": 1}}, report=Report(content="x"))

@step("shop.end")
def end(state, context):
    return Done(update={{"parts": [{part}]}})

shop = workflow("shop", title="{title}", state=Kept, reducers={{"parts": "append"}},
                steps=[use(count, pause_after=True, config={config}{more}), end])
"""
USUAL = {"title": "Shop", "config": "{}", "total": "1", "part": "'b'", "more": ""}


@pytest.fixture
def author(templates, tmp_path, monkeypatch, settings):
    """Deploys a version of the author's module, as a start of the product would find it."""
    monkeypatch.syspath_prepend(tmp_path)
    settings.WAYSTATION_WORKFLOWS = ["shop_published"]
    settings.WAYSTATION_PUBLISH = True
    steps, traits = dict(registry._STEPS), dict(registry._TRAITS)

    def deploy(**given):
        monkeypatch.setattr(registry, "_STEPS", dict(steps))
        monkeypatch.setattr(registry, "_TRAITS", dict(traits))
        monkeypatch.delitem(sys.modules, "shop_published", raising=False)
        (tmp_path / "shop_published.py").write_text(AUTHOR.format(**{**USUAL, **given}))
        # two versions within one second have one time and perhaps one size
        monkeypatch.setattr(sys, "dont_write_bytecode", True)

    yield deploy
    sys.modules.pop("shop_published", None)


def versions():
    return [
        Template.objects.filter(slug="shop").count(),
        StepTemplate.objects.filter(slug="shop-count").count(),
    ]


def test_what_is_declared_is_saved_once_and_a_change_is_the_next_version(
    author, django_assert_num_queries
):
    """A step template's configuration was saved once, and no later change of the code reached it;
    what the code left out stayed from the version before.
    """
    author()
    shipped.load()
    assert versions() == [1, 1]
    # the newest of each, what is given back, functions of people's steps, limits, schedules
    with django_assert_num_queries(2 + 1 + 1 + 1 + 2):
        shipped.load()
    author(config="{'bank': 'x'}")
    shipped.load()
    assert versions() == [1, 2]
    author(title="Store", config="{'bank': 'x'}")
    assert [one.version for one in shipped.load()] == [2]
    author()  # the deploy is taken back
    shipped.load()
    assert versions() == [3, 3]
    assert definitions.current("shop").title == "Shop"


def test_a_persons_version_stays_and_everybody_sees_that_the_code_is_newer(author, page, ana, api):
    """Issue 17, 1: an operator's edited version stays current and says so."""
    author()
    shipped.load()
    ana.user_permissions.add(Permission.objects.get(codename="add_template"))
    address = "/api/v1/templates/workflows/shop"
    rest = api(ana)
    assert rest.get(address).json()["newer_in_code"] == ""
    assert rest.put(address, {"title": "Ours"}, format="json").status_code == 200
    shipped.load()
    assert rest.get(address).json()["newer_in_code"] == ""
    assert "newer version" not in page.get("/templates/shop/").content.decode()

    author(title="Store")
    [current] = shipped.load()
    assert (current.title, current.version) == ("Ours", 2)
    told = rest.get(address).json()["newer_in_code"]
    assert told.endswith("shop_published.py, line 17")
    assert told in page.get("/templates/shop/").content.decode()
    assert "declares a newer version" in page.get("/templates/").content.decode()

    call_command("load_templates", "--replace", "shop", stdout=StringIO())
    assert definitions.current("shop").title == "Store"
    assert rest.get(address).json()["newer_in_code"] == ""
    shipped.load()
    assert versions()[0] == 3


def test_versions_of_an_older_release_are_taken_over(author):
    """Rows that were saved before declarations were noted have no mark."""
    author()
    shipped.load()
    Template.objects.update(declared="")
    StepTemplate.objects.update(declared="")
    shipped.load()
    assert versions() == [1, 1]
    assert (
        definitions.current("shop").declared
        and StepTemplate.objects.get(slug="shop-count").declared
    )
    Template.objects.update(declared="")
    author(title="Store")
    shipped.load()
    assert definitions.current("shop").title == "Store"


def test_what_cannot_be_saved_names_the_line_and_leaves_all_else_as_it_was(author, caplog):
    """A reviewer whom nobody knows was told without file and line; a server that starts logs it,
    and the version before stays current.
    """
    author()
    shipped.load()
    author(title="Store", more=", review={'reviewers': {'users': ['nobody']}}")
    with pytest.raises(
        shipped.TemplatesRefused, match=r"published.py, line 18: shop, steps.0.review.rev"
    ):
        shipped.load()
    shipped.load_or_say()
    assert "shop_published.py, line 18" in caplog.text and '"nobody"' in caplog.text
    assert definitions.current("shop").title == "Shop"


@pytest.mark.django_db(transaction=True)
def test_a_server_starts_without_tables_and_where_it_was_told_not_to_save(
    author, settings, monkeypatch, caplog
):
    """A web server that comes up before `migrate` must come up."""
    author()

    def away(*_):
        raise OperationalError("connection refused")

    with monkeypatch.context() as patched:
        patched.setattr(shipped, "load", away)
        shipped.load_or_say()
        assert "connection refused" in caplog.text
    settings.WAYSTATION_PUBLISH = False
    shipped.load_at_start()
    assert versions() == [0, 0]
    settings.WAYSTATION_PUBLISH = True
    shipped.load_at_start()
    assert versions() == [1, 1]


@pytest.mark.django_db(transaction=True)
@pytest.mark.one_database
def test_two_hosts_that_start_at_the_same_moment_save_one_version(author):
    """Issue 17, 1: without a race. Both have looked before either saves."""
    author()
    shipped.load()
    author(title="Store", config="{'bank': 'x'}")
    looked, failed = threading.Barrier(2, timeout=30), []
    met = set()
    is_new = shipped._is_new

    def is_new_for_both(model, one, *, replaced):
        new = is_new(model, one, replaced=replaced)
        if new and (threading.get_ident(), one.slug) not in met:
            met.add((threading.get_ident(), one.slug))
            looked.wait()
        return new

    def start():
        try:
            shipped.load()
        except Exception as error:  # noqa: BLE001  # whatever it is, the test tells it
            failed.append(error)
        finally:
            connection.close()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shipped, "_is_new", is_new_for_both)
        hosts = [threading.Thread(target=start) for _ in range(2)]
        for host in hosts:
            host.start()
        for host in hosts:
            host.join()
    assert failed == []
    assert versions() == [2, 2]
    assert definitions.current("shop").title == "Store"


def test_a_step_that_writes_what_the_workflow_does_not_declare_fails_and_names_the_field(
    author, ana
):
    """A wrong value was found steps later, where it was read."""
    author()
    shipped.load()
    order = drive(services.submit("shop", by=ana))
    assert pause_of(order)
    assert order.definition.content["state_schema"]["properties"]["total"] == {"type": "integer"}
    call_command("workorder", "--user", "ana", "approve", order.shown_id, stdout=StringIO())
    order = drive(order)
    assert order.status == "completed", order.latest_run.error
    assert state_at_head(order.thread_id)["parts"] == ["a", "b"]
    author(part="7")  # the same definition, other code
    shipped.load()
    order = drive(services.submit("shop", by=ana))
    call_command("workorder", "--user", "ana", "approve", order.shown_id, stdout=StringIO())
    order = drive(order)
    assert order.latest_run.failure_code == "state_not_as_declared"
    assert "step 'end' wrote" in order.latest_run.error
    assert "state.parts.1: Must be text." in order.latest_run.error
    assert state_at_head(order.thread_id)["parts"] == ["a"]
