"""What operators settle about a repository, over REST and in the admin, and what an order on it
begins with.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import services as runs
from runs.models import Repository, TemplateAccess, WorkOrder
from tests.conftest import drive, pause_of
from tests.worlds.people import give
from tests.worlds.repositories import UNTIDY, make_repository

pytestmark = pytest.mark.django_db
GOOD = {
    "push_policy": "branch", "pull_request_policy": "draft", "forge": "github",
    "credential": "forge-token", "base_branch": "stable/2",
    "default_template": "repo-tidy-quick", "check_command": ["make", "test"],
    "forge_project": "ada/engine",
}  # fmt: skip


@pytest.fixture
def folder(templates, tmp_path):
    return make_repository(tmp_path / "engine", UNTIDY)


@pytest.fixture
def repository(folder) -> Repository:
    return Repository.objects.create(name="engine", url=str(folder.resolve()))


@pytest.fixture
def operator(ana):
    ana.user_permissions.add(Permission.objects.get(codename="change_repository"))
    return ana


@pytest.fixture
def put(operator, api, repository):
    return lambda **values: api(operator).put(
        f"/api/v1/repositories/{repository.shown_id}", values, format="json"
    )


def test_settings_are_read_and_changed_over_rest(put, operator, api, repository):
    """S4-35: beside `template-execution`, all that is settled of a repository."""
    told = put(**GOOD).json()
    assert {name: told[name] for name in GOOD} == GOOD
    assert put(name="Engine").json()["push_policy"] == "branch"  # what is left out stays
    read = api(operator).get(f"/api/v1/repositories/{repository.shown_id}").json()
    assert read == api(operator).get("/api/v1/repositories").json()["results"][0]
    assert (read["name"], read["use_template_execution"]) == ("Engine", True)
    assert put(use_template_execution=False).json()["use_template_execution"] is False


def test_what_does_not_fit_together_is_refused_and_changes_nothing(put, repository, subtests):
    cases: list[tuple[Any, ...]] = [
        ({"pull_request_policy": "ready"}, "push_policy"),
        ({"pull_request_policy": "ready", "push_policy": "branch", "credential": "x"}, "forge"),
        ({**GOOD, "credential": ""}, "credential"),
        ({**GOOD, "credential": "ghp_token with spaces"}, "credential"),
        ({**GOOD, "forge_project": ""}, "forge_project"),  # a local folder does not say
        ({**GOOD, "forge_project": "one/two/three"}, "forge_project"),
        ({**GOOD, "forge_url": "https://127.0.0.1"}, "forge_url"),
        ({**GOOD, "forge_url": "http://169.254.169.254/latest"}, "forge_url"),
        ({"forge_url": "https://api.github.com"}, "forge_url"),
        ({"base_branch": "-delete"}, "base_branch"),
        ({"base_branch": "a..b"}, "base_branch"),
        ({"base_branch": "a b"}, "base_branch"),
        ({"base_branch": "refs/heads/x.lock"}, "base_branch"),
        ({"default_template": "nothing"}, "default_template"),
        ({"default_template": "writing"}, "default_template"),  # it works on no repository
        ({"author": "Ada\u202e <a@b>"}, "author"),
    ]
    for values, field in cases:
        with subtests.test(ascii(values)[:60]):
            answer = put(**values)
            assert (answer.status_code, answer.json()["code"]) == (422, "repository_invalid")
            assert field in answer.json()["errors"]
            assert Repository.objects.values().get() == {
                **Repository.objects.filter(pk=repository.pk).values().get(),
                "push_policy": "asked",
            }


def test_what_is_of_another_kind_is_not_understood(put, subtests):
    cases: list[dict[str, Any]] = [
        {"push_policy": "force"},
        {"check_command": "make test"},
        {"name": "x" * 121},
        {"check_command": [1, {}]},
    ]
    for values in cases:
        with subtests.test(ascii(values)[:60]):
            assert put(**values).status_code == 400


def test_an_unknown_repository_is_a_404(operator, api, repository):
    nothing = f"/api/v1/repositories/repo_{'0' * 26}"
    assert (
        api(operator).get(nothing).status_code
        == api(operator).put(nothing, {}, format="json").status_code
        == 404
    )


@pytest.mark.parametrize("bad", [{"push_policy": "force"}, {"pull_request_policy": "ready"}])
def test_the_database_refuses_what_must_never_be(repository, bad):
    with pytest.raises(IntegrityError), transaction.atomic():
        Repository.objects.update(**bad)


def test_the_admin_asks_the_same_questions(repository, admin_user):
    desk = Client()
    desk.force_login(admin_user)
    url = reverse("admin:runs_repository_change", args=[repository.pk])
    fields = {
        **GOOD,
        "check_command": '["make", "test"]',
        "name": "engine",
        "url": repository.url,
        "use_template_execution": "on",
    }
    refused = desk.post(url, {**fields, "forge_url": "https://127.0.0.1/api"})
    assert "may not be reached from here" in refused.content.decode()
    assert desk.post(url, fields).status_code == 302
    repository.refresh_from_db()
    assert {name: getattr(repository, name) for name in GOOD} == GOOD


def test_an_order_without_a_template_takes_the_repositorys_own(put, operator, api, repository):
    """C29."""
    put(default_template="repo-tidy-quick")
    made = api(operator).post(
        "/api/v1/work-orders", {"repository_url": repository.url}, format="json"
    )
    assert made.json()["template"] == "repo-tidy-quick"
    named = api(operator).post(
        "/api/v1/work-orders",
        {"repository_url": repository.url, "template": "repo-tidy"},
        format="json",
    )
    assert named.json()["template"] == "repo-tidy"


def test_an_order_that_names_no_template_is_told_which_there_are(
    put, operator, ana, api, repository
):
    """Those that the asker may not use are not listed."""
    TemplateAccess.objects.create(slug="quick-fix-workflow", enabled=False)
    order = {"repository_url": repository.url, "user_request": "Add auth"}
    refused = api(operator).post("/api/v1/work-orders", order, format="json")
    assert (refused.status_code, refused.json()["code"]) == (422, "template_required")
    assert (
        "You may use: " in refused.json()["detail"]
        and "repo-tidy, repo-tidy-quick" in refused.json()["detail"]
    )
    assert not {"quick-fix-workflow", "smart-booking"} & set(
        refused.json()["detail"].replace(".", "").replace(",", "").split()
    )
    assert (
        "smart-booking"
        in api(operator).post("/api/v1/work-orders", {}, format="json").json()["detail"]
    )
    with pytest.raises(CommandError, match="repo-tidy-quick"):
        call_command("workorder", "--user", ana.username, "create", repository.url)
    page = Client()
    page.force_login(ana)
    form = page.post("/work-orders/new", {"repository_url": repository.url, "request": "Add auth"})
    assert form.status_code == 422
    assert "Choose a template: it says what will be done." in form.content.decode()
    assert page.post("/work-orders/new", {}).status_code == 422, "without any field, too"
    assert page.get("/work-orders/new").status_code == 200
    Repository.objects.update(allowed_templates=["repo-tidy-quick", "repo-tidy"])
    assert (
        "You may use: repo-tidy, repo-tidy-quick."
        in api(operator).post("/api/v1/work-orders", order, format="json").json()["detail"]
    )
    assert not WorkOrder.objects.exists()


@pytest.fixture
def settler(operator):
    give(operator, "add_repository", "add_template")
    return operator


def test_level_3_on_a_fresh_install(settler, api, folder, templates):
    """S4-56: there was no way over REST to make the repository that level 3 finds, and an order
    that names no template was refused whatever the instance's template was.
    """
    tool, address = api(settler), "/api/agent-work-orders/"
    step = {
        "step_type": "planning",
        "step_template_slug": "test-plan",
        "pause_after": True,
        "pause_phase": "awaiting_plan_approval",
    }
    printed = {"steps": [step], "default": True}
    put = tool.put(f"{address}templates/workflows/standard-dev", printed, format="json")
    assert put.json().get("default") is True, put.json()
    made = tool.post(f"{address}repositories", {"url": str(folder)}, format="json")
    assert (made.status_code, made.json()["name"], made.json()["url"]) == (
        201,
        "engine",
        str(folder.resolve()),
    )
    tool.put(
        f"{address}repositories/{made.json()['id']}/template-execution",
        {"use_template_execution": True},
        format="json",
    )
    asked = {"repository_url": str(folder), "user_request": "Add auth"}
    order = tool.post(address, asked, format="json").json()
    assert order["template"] == "standard-dev"
    drive(WorkOrder.objects.get())
    pause = tool.get(f"{address}{order['agent_work_order_id']}/pause-state").json()
    assert (pause["pause_phase"], pause["status"]) == ("awaiting_plan_approval", "active")


def test_which_template_an_order_takes_that_names_none(settler, api, repository, templates):
    """S4-56: the repository's own, else the instance's, else the only one that fits."""
    tool = api(settler)

    def taken(**order: Any) -> str:
        body = {"user_request": "Tidy", **order}
        answer = tool.post("/api/v1/work-orders", body, format="json").json()
        return str(answer.get("template") or answer["code"])

    def put(slug: str, **values: Any) -> None:
        put = tool.put(f"/api/v1/templates/workflows/{slug}", values, format="json")
        assert put.status_code == 200, put.json()

    on_it = {"repository_url": repository.url}
    assert (taken(**on_it), taken()) == ("template_required", "template_required")
    put("repo-tidy", default=True)
    assert (taken(**on_it), taken()) == ("repo-tidy", "template_required"), "it works on code"
    put("writing", default=True)
    assert (taken(**on_it), taken()) == ("template_required", "writing"), "one at most"
    assert not tool.get("/api/v1/templates/workflows/repo-tidy").json()["default"]
    put("writing", title="Written")
    assert taken() == "writing", "what is not said stays"
    Repository.objects.update(allowed_templates=["repo-tidy-quick"])
    assert taken(**on_it) == "repo-tidy-quick", "it alone fits"
    Repository.objects.update(allowed_templates=[], default_template="repo-tidy-quick")
    put("repo-tidy", default=True)
    assert taken(**on_it) == "repo-tidy-quick", "the repository's own comes first"
    put("repo-tidy", default=False)
    TemplateAccess.objects.create(slug="writing-quick", default=True, enabled=False)
    assert taken() == "template_off", "and no other in its place"


def test_a_repository_that_may_not_be_used_says_so(settler, ana, ben, api, repository, tmp_path):
    """S4-56: each of these was `template_required`, and no template would have helped."""
    tool, order = api(ben), {"repository_url": repository.url}

    def code(**order: Any) -> str:
        return str(tool.post("/api/v1/work-orders", order, format="json").json()["code"])

    assert code(repository_url=str(tmp_path.parent.parent)) == "outside_allowed_folders"
    assert code(repository_url="https://example.org/a/b") == "host_not_allowed"
    Repository.objects.update(use_template_execution=False)
    assert code(**order) == "template_execution_off"
    Repository.objects.update(use_template_execution=True, use_restricted=True)
    assert code(**order) == "repository_not_allowed"
    assert not WorkOrder.objects.exists()


def test_a_repository_is_registered_once(settler, api, folder):
    """S4-56: with the body of PUT, and the address that an order names."""
    tool, address = api(settler), "/api/v1/repositories"

    def post(**values: Any) -> Any:
        return tool.post(address, {"url": str(folder), **values}, format="json")

    assert post(push_policy="branch", forge_url="x").json()["code"] == "repository_invalid"
    assert post(use_groups=["nobody"]).json()["code"] == "repository_invalid"
    assert post(url="/etc").json()["code"] == "outside_allowed_folders"
    assert not Repository.objects.exists()
    made = post(**GOOD, name="Engine").json()
    assert {name: made[name] for name in GOOD} == GOOD
    again = post(name="Again")
    assert (again.status_code, again.json()["code"]) == (409, "repository_exists")
    assert made["id"] in again.json()["detail"]
    assert tool.get(address).json()["results"] == [made]


def test_an_order_keeps_what_was_settled_when_it_was_made(put, ana, repository):
    put(**{**GOOD, "base_branch": "main"})
    order = runs.submit("repo-tidy", by=ana, repository_url=repository.url)
    put(base_branch="", pull_request_policy="never", push_policy="asked")
    assert WorkOrder.objects.get(pk=order.pk).delivery == {
        "push": "branch",
        "pull_request": "draft",
        "base_branch": "main",
    }


def test_the_form_offers_repositories_that_one_knows_and_begins_with_their_settings(
    put, ana, zoe, repository, page
):
    put(**GOOD)
    new = "/work-orders/new"
    assert repository.shown_id not in page.get(new).content.decode()  # nobody ordered on it yet
    assert page.get(f"{new}?repository={repository.shown_id}").status_code == 404
    runs.submit("repo-tidy", by=ana, repository_url=repository.url)
    assert f"?repository={repository.shown_id}" in page.get(new).content.decode()
    shown = page.get(f"{new}?repository={repository.shown_id}").content.decode()
    assert 'name="template" value="repo-tidy-quick"' in shown
    assert f'value="{repository.url}"' in shown
    assert "a draft pull request opened at GitHub" in " ".join(shown.split())
    assert f"?template=repo-tidy&amp;repository={repository.shown_id}" in shown
    stranger = Client()
    stranger.force_login(zoe)
    assert repository.name not in stranger.get(new).content.decode()
    for unknown in (repository.shown_id, "repo_nothing", "%00", "wo_" + "0" * 26):
        assert stranger.get(f"{new}?repository={unknown}").status_code == 404


@pytest.mark.parametrize(
    ("link", "shown"),
    [("https://forge.example/ada/engine/pull/7", True), ("javascript:alert(1)", False)],
)
def test_a_pull_request_is_a_link_wherever_the_order_is_shown_if_it_is_one(
    folder, ana, page, api, admin_user, link, shown
):
    order = drive(
        runs.submit(
            "repo-tidy-quick", by=ana, repository_url=str(folder), interrupt_after=["review"]
        )
    )
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    order = drive(order)
    head = order.thread.head
    type(head).objects.filter(pk=head.pk).update(
        metadata={**head.metadata, "outputs": {"github_pull_request_url": link}}
    )
    desk = Client()
    desk.force_login(admin_user)
    pages = [
        page.get(f"/work-orders/{order.shown_id}/"),
        desk.get(reverse("admin:runs_workorder_change", args=[order.pk])),
    ]
    assert [link in found.content.decode() for found in pages] == [shown, shown]
    assert api(ana).get(f"/api/v1/work-orders/{order.shown_id}").json()[
        "github_pull_request_url"
    ] == (link if shown else None)
