"""Who may order by which template, use which repository and have work delivered: at every door, and
at the push again (P6).
"""

from __future__ import annotations

import json

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.management import CommandError, call_command
from django.urls import reverse

from checkpoints.models import Checkpoint
from hitl.decisions import services as people
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import definitions, services
from runs.definitions import rights
from runs.models import Repository, TemplateAccess
from runs.threads import message_queue
from runs.threads import turns as turns
from runs.threads.turns import Turn
from tests.conftest import drive, fresh, pause_of
from tests.worlds.people import group
from tests.worlds.repositories import UNTIDY, bare_copy, git, make_repository
from tests.worlds.ruled_order import browser, rest

pytestmark = [pytest.mark.django_db, pytest.mark.one_database, pytest.mark.usefixtures("templates")]

RIGHT = "template_not_allowed"


def restrict(slug, *groups, enabled=True):
    """As the admin's form does it."""
    access, _ = TemplateAccess.objects.update_or_create(slug=slug, defaults={"enabled": enabled})
    rights.settle(access, "groups", "restricted", groups)
    return access


def refused(answer, status, code):
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    return answer.json()["detail"]


def test_a_template_is_for_its_groups_at_every_door(ana, zoe, team, thread_of_zoe):
    """Before, everybody who could log in could begin work by any template."""
    failed = drive(services.submit("writing-fail", by=zoe))
    paused = drive(services.submit("writing", by=zoe))
    for slug in ("writing", "writing-quick", "writing-fail"):
        restrict(slug, team)
    api = rest(zoe)
    words = refused(
        api.post("/api/v1/work-orders", {"template": "writing"}, format="json"), 403, RIGHT
    )
    assert "You may not order by the template writing" in words
    refused(api.post(f"/api/v1/work-orders/{failed.shown_id}/again", {}, format="json"), 403, RIGHT)
    body = {"template": "writing", "input": {"x": 1}}
    refused(
        api.post(f"/api/v1/threads/{thread_of_zoe.shown_id}/runs", body, format="json"), 403, RIGHT
    )
    fork = Checkpoint.objects.filter(thread=paused.thread_id).order_by("pk").first()
    people.decide(pause_of(paused).pk, Answer("cancel", Via.PAGE), by=zoe)
    refused(
        api.post(f"/api/v1/checkpoints/{fork.shown_id}/fork", {"reason": "again"}, format="json"),
        403,
        RIGHT,
    )
    page = browser(zoe).post("/work-orders/new", {"template": "writing"})
    assert page.status_code != 302
    assert browser(zoe).post(
        f"/threads/{thread_of_zoe.shown_id}/say", {"text": "Hello", "template": "writing"}
    ).status_code in {403, 422}
    with pytest.raises(CommandError, match="You may not order"):
        call_command("workorder", "--user", "zoe", "create", "--template", "writing")
    assert (
        rest(ana).post("/api/v1/work-orders", {"template": "writing"}, format="json").status_code
        == 201
    )


@pytest.fixture
def thread_of_zoe(zoe):
    return turns.open_thread(by=zoe)


def test_what_was_put_in_line_is_asked_when_its_turn_comes(zoe, team, thread_of_zoe):
    """The template may have been taken from its sender meanwhile."""
    run = turns.invoke(thread_of_zoe.pk, Turn(template="writing", input={}), by=zoe)
    turn = message_queue.put(thread_of_zoe.pk, Turn(input={"input": "later"}), by=zoe)
    restrict("writing", team)
    services.cancel_run(run, by=zoe)
    assert message_queue.begin_next(thread_of_zoe.pk) is None
    turn.refresh_from_db()
    assert (turn.status, "You may not order" in turn.words) == ("refused", True)
    with pytest.raises(rights.Forbidden):
        message_queue.put(thread_of_zoe.pk, Turn(input={"input": "again"}), by=zoe)


def test_a_template_that_is_switched_off_begins_nothing_and_goes_on_with_what_it_began(
    ana, ben, admin_user
):
    order = drive(services.submit("writing", by=ana))
    restrict("writing", enabled=False)
    for user in (ana, admin_user):
        assert "switched off" in refused(
            rest(user).post("/api/v1/work-orders", {"template": "writing"}, format="json"),
            409,
            "template_off",
        )
    people.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    assert drive(order).phase == "awaiting_implementation_review"


def test_a_new_version_keeps_who_may_order_and_a_deleted_group_opens_nothing(
    ana, zoe, team, admin_user
):
    """A restriction that went away with a group would make everybody's what was a few people's."""
    few = group("few")
    restrict("writing", few)
    definitions.edit_template("writing", title="Newer")
    assert definitions.current("writing").version == 2
    assert rights.why_not("writing", ana).code == RIGHT
    few.delete()
    assert rights.why_not("writing", ana).code == RIGHT
    assert rights.who_may(rights.access_to("writing")) == "Members of no group at all"
    assert rights.why_not("writing", admin_user) is None


def test_waits_of_other_engines_can_be_left_to_few(zoe, team):
    body = {
        "run_id": "outer",
        "node_id": "n",
        "state": {},
        "required_inputs": {},
        "blocking_reason": "x",
    }
    restrict("wait-gate", team)
    refused(rest(zoe).post("/api/v1/workflows/wait", body, format="json"), 403, RIGHT)


def test_lists_and_pages_say_what_one_may_order_and_why_not(ana, zoe, team):
    restrict("writing", team)
    restrict("writing-quick", enabled=False)
    rows = {
        row["slug"]: row
        for row in rest(zoe).get("/api/v1/templates/workflows?limit=200").json()["results"]
    }
    assert (
        rows["writing"]["may_order"],
        rows["writing-quick"]["may_order"],
        rows["repo-tidy"]["may_order"],
    ) == (False, False, True)
    assert "You may not order by the template writing" in rows["writing"]["refusal"]
    read = rest(ana).get("/api/v1/templates/workflows/writing").json()
    assert (read["may_order"], read["who_may_order"]) == (True, "Members of platform")
    for url in ("/templates/", "/work-orders/new"):
        shown = browser(zoe).get(url).content.decode()
        assert "You may not order by the template writing," in shown
        assert "The template writing-quick is switched off" in shown
    offered = browser(zoe).get("/work-orders/new").content.decode()
    assert "?template=writing-fail" in offered
    assert '?template=writing"' not in offered
    assert (
        "Who may order: Members of platform."
        in browser(zoe).get("/templates/writing/").content.decode()
    )
    talk = browser(zoe).get(f"/threads/{turns.open_thread(by=zoe).shown_id}/").content.decode()
    assert 'value="writing-fail"' in talk
    assert 'value="writing"' not in talk


def test_operators_settle_it_in_the_admin(admin_user, team, zoe):
    desk = browser(admin_user)
    add = reverse("admin:runs_templateaccess_add")
    assert b"Did you mean writing" in desk.post(add, {"slug": "writin", "enabled": "on"}).content
    assert (
        desk.post(add, {"slug": "writing", "enabled": "on", "groups": [team.pk]}).status_code == 302
    )
    access = TemplateAccess.objects.get()
    assert access.restricted
    assert rights.why_not("writing", zoe) is not None
    change = reverse("admin:runs_templateaccess_change", args=[access.pk])
    assert desk.post(change, {"enabled": "on", "groups": []}).status_code == 302
    assert rights.why_not("writing", zoe) is None
    template = desk.get(
        reverse("admin:runs_template_change", args=[definitions.current("writing").pk])
    ).content.decode()
    assert "who may order" in template.lower()
    assert change in template


# Repositories


@pytest.fixture
def bare(tmp_path):
    return bare_copy(make_repository(tmp_path / "start", UNTIDY), tmp_path / "engine.git")


@pytest.fixture
def repository(bare):
    return Repository.objects.create(name="engine", url=str(bare.resolve()))


def order(user, bare, template="repo-tidy-quick", **values):
    body = {"template": template, "repository_url": str(bare), "input": {"rules": "F401", **values}}
    return rest(user).post("/api/v1/work-orders", body, format="json")


def branches(bare):
    return git(bare, "branch", "--list", "waystation/*").split()


def test_a_strangers_unreviewed_commits_are_not_pushed(bare, zoe, ana):
    """A stranger pushed eleven, with the template that does not ask."""
    words = refused(order(zoe, bare, push=True), 403, "delivery_unreviewed")
    assert "asks anybody before the work is pushed" in words
    assert "Order by a template that asks" in words
    assert order(zoe, bare).status_code == 201  # without a push it is harmless
    zoe.user_permissions.add(Permission.objects.get(codename="deliver_unreviewed"))
    assert order(zoe, bare, push=True).status_code == 201
    assert order(ana, bare, "repo-tidy", push=True).status_code == 201  # it asks


def made(user, bare, template="repo-tidy-quick"):
    return services.submit(
        template, by=user, repository_url=str(bare), input={"rules": "F401", "push": True}
    )


def test_the_right_is_asked_again_at_the_push(bare, zoe):
    """P6: before, whatever was ordered was pushed, whatever its maker was allowed by then."""
    right = Permission.objects.get(codename="deliver_unreviewed")
    zoe.user_permissions.add(right)
    ordered = made(User.objects.get(pk=zoe.pk), bare)
    zoe.user_permissions.remove(right)
    ended = drive(ordered)
    assert (ended.status, ended.latest_run.failure_code, branches(bare)) == (
        "failed",
        "delivery_unreviewed",
        [],
    )
    assert "the commits are kept" in ended.latest_run.error
    zoe.user_permissions.add(right)
    services.retry(ended.pk, by=zoe)
    assert (drive(ended).status, len(branches(bare))) == ("completed", 1)


def test_work_leaves_for_the_groups_that_may_deliver_alone(bare, repository, ana, ben, zoe, team):
    """Before, whoever saw the address of a repository had work pushed to it."""
    rights.settle(repository, "delivery_groups", "delivery_restricted", [team])
    refused(order(zoe, bare, "repo-tidy", push=True), 403, "delivery_not_allowed")
    assert order(zoe, bare, "repo-tidy").status_code == 201
    ordered = drive(made(ana, bare, "repo-tidy"))
    people.decide(pause_of(ordered).pk, Answer("approve", Via.PAGE), by=ana)
    ana.groups.clear()
    ordered = drive(fresh(ordered))
    people.decide(pause_of(ordered).pk, Answer("skip_review", Via.PAGE), by=ana)
    ended = drive(fresh(ordered))
    assert (ended.status, ended.latest_run.failure_code, branches(bare)) == (
        "failed",
        "delivery_not_allowed",
        [],
    )


def test_who_forks_an_order_needs_the_rights_too(bare, ana, ben, team):
    """Before, a fork by anybody pushed under the name of who had ordered."""
    ana.user_permissions.add(Permission.objects.get(codename="deliver_unreviewed"))
    ordered = services.submit(
        "repo-tidy-quick",
        by=ana,
        team=team,
        repository_url=str(bare),
        input={"rules": "F401", "push": True},
    )
    assert drive(ordered).status == "completed"
    git(bare, "branch", "-D", *branches(bare))
    point = Checkpoint.objects.filter(thread=ordered.thread_id, next_step="deliver").first()
    services.fork(point.pk, by=ben, reason="once more")
    ended = drive(fresh(ordered))
    assert (ended.latest_run.failure_code, branches(bare)) == ("delivery_unreviewed", [])


def test_a_repository_is_for_its_groups_and_its_templates(bare, repository, ana, zoe, team):
    rights.settle(repository, "use_groups", "use_restricted", [team])
    refused(order(zoe, bare), 403, "repository_not_allowed")
    Repository.objects.update(allowed_templates=["repo-tidy"])
    words = refused(order(ana, bare), 409, "template_not_on_repository")
    assert "Allowed are repo-tidy" in words
    assert order(ana, bare, "repo-tidy").status_code == 201
    offered = (
        browser(ana).get(f"/work-orders/new?repository={repository.shown_id}").content.decode()
    )
    assert "template=repo-tidy&" in offered
    assert "template=repo-tidy-quick" not in offered
    assert "engine" not in browser(zoe).get("/work-orders/new").content.decode()


def test_operators_settle_a_repository_over_rest_and_in_the_admin(repository, admin_user, team):
    url = f"/api/v1/repositories/{repository.shown_id}"
    given = {
        "use_groups": ["platform"],
        "delivery_groups": ["platform"],
        "allowed_templates": ["repo-tidy"],
    }
    told = rest(admin_user).put(url, given, format="json").json()
    assert {name: told[name] for name in given} == given
    repository.refresh_from_db()
    assert (repository.use_restricted, repository.delivery_restricted) == (True, True)
    for wrong, words in (
        ({"use_groups": ["platfrom"]}, "Did you mean platform?"),
        ({"allowed_templates": ["repo-tydi"]}, "Did you mean repo-tidy?"),
        (
            {"allowed_templates": ["repo-tidy-quick"], "default_template": "repo-tidy"},
            "go by repo-tidy: allow it",
        ),
    ):
        answer = rest(admin_user).put(url, wrong, format="json")
        assert (answer.status_code, words in json.dumps(answer.json()["errors"])) == (422, True), (
            answer.json()
        )
    change = reverse("admin:runs_repository_change", args=[repository.pk])
    fields = {
        "name": "engine",
        "url": repository.url,
        "push_policy": "asked",
        "pull_request_policy": "never",
        "check_command": "[]",
    }
    assert (
        browser(admin_user)
        .post(change, {**fields, "allowed_templates": "", "use_template_execution": "on"})
        .status_code
        == 302
    )
    repository.refresh_from_db()
    assert (
        repository.use_restricted,
        repository.delivery_restricted,
        repository.allowed_templates,
    ) == (False, False, [])
    assert Group.objects.filter(name="platform").exists()
