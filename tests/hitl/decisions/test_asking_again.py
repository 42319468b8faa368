"""A work order that was cancelled, failed or expired is asked for again: a new one like it, which
names the earlier one.
"""

from __future__ import annotations

import base64

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from checkpoints.models import Blob
from hitl.decisions import services
from hitl.models import Via
from hitl.threads import erasure
from runs import definitions
from runs import services as runs
from runs.models import Artifact, Pause, Template, WorkOrder
from runs.services import InputInvalid, resubmit
from runs.services.resubmit import CannotAskAgain
from runs.workflows import attachments
from tests.conftest import drive, fresh, pause_of
from tests.databases.whole import at_once, rows
from tests.databases.whole import file_database as file_database
from tests.worlds.histories.whole_story import broken

pytestmark = pytest.mark.django_db


@pytest.fixture
def cancelled(paused, ana):
    services.cancel_order(paused.pk, by=ana, via=Via.PAGE, reason="not now")
    return fresh(paused)


def path_of(order):
    return f"/api/v1/work-orders/{order.shown_id}/again"


def test_a_cancelled_order_is_asked_for_again_over_rest(cancelled, api, ben):
    """Of the template's current version; its first question is asked anew."""
    old = Template.objects.filter(slug=cancelled.template.slug).latest("version")
    definitions.edit_template(
        old.slug, steps=old.steps, title="Newer", needs_repository=old.needs_repository
    )
    answer = api(ben).post(path_of(cancelled), HTTP_IDEMPOTENCY_KEY="once-more")
    told = answer.json()
    assert (answer.status_code, told["again_of"], told["title"], told["created_by"]) == (
        201,
        cancelled.shown_id,
        cancelled.title,
        "ben",
    )
    new = WorkOrder.objects.get(again_of=cancelled)
    same = ("request", "input", "repository_url")
    assert [getattr(new, name) for name in same] == [getattr(cancelled, name) for name in same]
    assert (new.thread.team, new.definition.template_version) == (
        cancelled.thread.team,
        old.version + 1,
    )
    assert pause_of(drive(new)).revision == 1
    replayed = api(ben).post(path_of(cancelled), HTTP_IDEMPOTENCY_KEY="once-more")
    assert (replayed.status_code, replayed.json()) == (201, told)
    assert broken() == {}


@pytest.mark.both_databases
def test_it_is_asked_for_again_once(cancelled, api, ana):
    first = api(ana).post(path_of(cancelled)).json()
    second = api(ana).post(path_of(cancelled))
    assert (second.status_code, second.json()["code"], first["id"] in second.json()["detail"]) == (
        409,
        "cannot_ask_again",
        True,
    )


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_of_three_at_once_one_makes_an_order(file_database, cancelled, ana):
    found = at_once(*[lambda: resubmit.ask_again(cancelled.pk, by=ana)] * 3)
    assert sum(isinstance(one, WorkOrder) for one in found) == 1
    assert sum(isinstance(one, CannotAskAgain) for one in found) == 2
    assert WorkOrder.objects.count() == 2


@pytest.mark.parametrize("template", ["writing", "writing-quick"])
def test_one_that_lives_or_completed_is_not(make_order, api, ana, template):
    order = drive(make_order(template))
    client, before = api(ana), rows()
    answer = client.post(path_of(order))
    assert (answer.status_code, answer.json()["code"]) == (409, "cannot_ask_again")
    assert rows() == before


def test_a_failed_one_may_be_retried_or_asked_for_again(make_order, api, ana):
    order = drive(make_order("writing-fail"))
    assert api(ana).post(path_of(order)).status_code == 201
    assert api(ana).post(f"/api/v1/work-orders/{order.shown_id}/retry").status_code == 200


def test_over_rest_the_earlier_order_names_its_successor_to_who_may_see_it(
    cancelled, api, ana, ben, admin_user
):
    """The order that nobody shares is asked for again by an administrator."""
    path = f"/api/v1/work-orders/{cancelled.shown_id}"
    assert api(ana).get(path).json()["asked_again_as"] is None
    new = api(ben).post(f"{path}/again").json()
    assert new["asked_again_as"] is None
    assert api(ana).get(path).json()["asked_again_as"] == new["id"]
    listed = {
        one["id"]: one["asked_again_as"]
        for one in api(ana).get("/api/v1/work-orders").json()["results"]
    }
    assert listed == {cancelled.shown_id: new["id"], new["id"]: None}
    own = runs.submit("writing", by=ana)
    services.cancel_order(own.pk, by=ana, via=Via.PAGE)
    hidden = resubmit.ask_again(own.pk, by=admin_user)
    path = f"/api/v1/work-orders/{own.shown_id}"
    assert [api(one).get(path).json()["asked_again_as"] for one in (ana, admin_user)] == [
        None,
        hidden.shown_id,
    ]


@pytest.mark.both_databases
def test_a_list_names_successors_without_a_query_for_each(cancelled, api, ana):
    def statements():
        with CaptureQueriesContext(connection) as found:
            assert client.get("/api/v1/work-orders").status_code == 200
        return len(found)

    client = api(ana)
    statements()  # the token's first use is noted
    one = statements()
    for _ in range(3):
        again = resubmit.ask_again(cancelled.pk, by=ana)
        services.cancel_order(again.pk, by=ana, via=Via.PAGE)
        cancelled = again
    assert statements() == one


def test_the_page_offers_it_and_both_pages_name_the_other(cancelled, page):
    url = f"/work-orders/{cancelled.shown_id}/"
    assert "Start over as a new order" in page.get(url).content.decode()
    made = page.post(f"{url}again")
    new = WorkOrder.objects.get(again_of=cancelled)
    assert (made.status_code, made["Location"]) == (302, f"/work-orders/{new.shown_id}/")
    assert f'href="{url}"' in page.get(made["Location"]).content.decode()
    shown = page.get(url).content.decode()
    assert f'href="{made["Location"]}"' in shown
    assert "Start over as a new order" not in shown
    assert page.post(f"{url}again")["Location"] == url


def test_who_left_the_team_or_sees_nothing_asks_for_nothing(cancelled, api, ana):
    stranger = User.objects.create_user("stranger")
    assert api(stranger).post(path_of(cancelled)).status_code == 404
    ana.groups.clear()
    answer = api(ana).post(path_of(cancelled))
    assert (answer.status_code, answer.json()["code"]) == (422, "input_invalid")
    assert WorkOrder.objects.count() == 1


@pytest.mark.parametrize("gone", ["damaged", "deleted"])
def test_files_come_along_and_what_is_gone_is_said(make_order, ana, gone):
    newest = Template.objects.filter(slug="writing").latest("version")
    schema = {"type": "object", "properties": {"paper": attachments.schema_of("Paper", "")}}
    definitions.edit_template(
        "writing", steps=newest.steps, title="W", needs_repository=False, input_schema=schema
    )
    paper = {"name": "paper.txt", "content": base64.b64encode(b"words").decode()}
    order = runs.submit("writing", by=ana, input={"paper": paper})
    services.cancel_order(order.pk, by=ana, via=Via.PAGE)
    new = resubmit.ask_again(order.pk, by=ana)
    assert new.input == order.input
    services.cancel_order(new.pk, by=ana, via=Via.PAGE)
    if gone == "damaged":
        Blob.objects.filter(pk=order.input["paper"]["sha256"]).update(content=b"other bytes")
    else:
        Artifact.objects.filter(thread=new.thread_id).delete()
    with pytest.raises(InputInvalid, match="not there any more"):
        resubmit.ask_again(new.pk, by=ana)
    assert not WorkOrder.objects.filter(again_of=new).exists()


def test_a_secret_that_was_not_kept_is_not_made_up(cancelled, ana):
    WorkOrder.objects.filter(pk=cancelled.pk).update(input={"password": "[redacted]"})
    with pytest.raises(InputInvalid, match="secret"):
        resubmit.ask_again(cancelled.pk, by=ana)


def test_an_erasure_of_the_earlier_one_leaves_the_new_one(cancelled, ana):
    new = resubmit.ask_again(cancelled.pk, by=ana)
    erasure.erase(cancelled.thread_id, by="admin", reason="asked for")
    assert WorkOrder.objects.get().again_of is None
    assert Pause.objects.count() == 0
    assert fresh(new).status == "pending"
