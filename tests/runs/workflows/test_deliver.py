"""Work that leaves: the approved commit as a branch and one pull request, whatever fails in
between, and no token anywhere (issue 7).
"""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from django.utils import timezone

from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Via
from runs import definitions
from runs import services as runs
from runs.engine import record
from runs.engine.context import delivery as delivering
from runs.models import Repository, Run, StepTemplate, WorkOrder
from runs.security import credentials
from runs.workflows import deliver as delivery
from runs.workflows.base import Context, Go, Outcome, Report, State
from runs.workflows.registry import step
from tests.conftest import drive, fresh, log_lines, pause_of
from tests.databases.encryption_keys import NEW, dump, keys
from tests.killed import moments
from tests.servers.forge import PROJECT, TOKEN, Forge, serving
from tests.worlds.repositories import UNTIDY, bare_copy, git, make_repository

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]


@step("deliver_test.work")
def work(state: State, context: Context) -> Outcome:
    """Commit a file, and ask about just that commit."""
    workspace = context.workspace
    workspace.restore()
    (workspace.path / "new.txt").write_text("new\n")
    head = workspace.commit("Add new.txt", ["new.txt"])
    effects = delivery.effects(context, asked=bool(context.order.input.get("push")))
    report = Report(content="Done", effects=effects, material=delivery.material(head))
    return Go(report=report, commit=workspace.snapshot())


@pytest.fixture
def forge(templates, tmp_path, settings) -> Iterator[Forge]:
    """A forge with one repository on it, and a template whose work ends there."""
    make_repository(tmp_path / "start", UNTIDY)
    bare = tmp_path / "srv" / f"{PROJECT}.git"
    bare.parent.mkdir(parents=True)
    bare_copy(tmp_path / "start", bare)
    definitions.edit_step_template(
        "deliver-work", title="Work", function="deliver_test.work", config={}
    )
    retry = {"attempts": 4, "base": 1, "cap": 2, "errors": ["forge_away", "forge_limit"]}
    steps = [
        {
            "step_type": "execute",
            "step_template_slug": "deliver-work",
            "pause_after": True,
            "pause_phase": "awaiting_review_decision",
        },
        {"step_type": "deliver", "step_template_slug": "deliver", "retry": retry},
    ]
    definitions.edit_template("delivering", title="Delivering", steps=steps)
    with serving(tmp_path / "srv") as forge, keys(NEW):
        settings.WAYSTATION_FORGES = [forge.url]
        settings.WAYSTATION_GIT_SCHEMES = ["http"]
        settings.WAYSTATION_GIT_HOSTS = ["127.0.0.1"]
        credentials.put("forge-token", TOKEN)
        yield forge


@pytest.fixture
def repository(forge) -> Repository:
    return Repository.objects.create(
        name="engine", url=forge.clone_url, push_policy="branch", pull_request_policy="ready",
        forge="github", forge_url=forge.url,
        credential="forge-token",
    )  # fmt: skip


@pytest.fixture
def waiting(repository, ana, team) -> WorkOrder:
    """An order that asks about its commit."""
    return ordered(repository, ana, team=team)


def ordered(repository: Repository, by: Any, **more: Any) -> WorkOrder:
    order = runs.submit(
        "delivering",
        by=by,
        repository_url=repository.url,
        title="Add a file",
        request="Please add it",
        **more,
    )
    order = drive(order)
    assert order.status == "paused", order.latest_run.error
    return order


def approve(order: WorkOrder, by: Any) -> WorkOrder:
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=by)
    return drive(order)


def settled(order: WorkOrder) -> WorkOrder:
    moments.work_off()
    return fresh(order)


def files_with(secret: str, folder: Any) -> list[str]:
    found = []
    for parent, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(parent, name), "rb") as file:
                if secret.encode() in file.read():
                    found.append(os.path.join(parent, name))
    return found


def test_the_approved_commit_leaves_and_no_token_stays_anywhere(
    waiting, forge, ana, ben, api, page, settings, caplog, monkeypatch
):
    """F14, S4-62: secrets are referenced, never stored; `github_pull_request_url` is shown wherever
    the order is.
    """
    caplog.set_level(logging.DEBUG)
    called: list[str] = []
    start = subprocess.Popen

    def noting(arguments: Any, **more: Any) -> Any:
        called.extend(map(str, arguments))
        return start(arguments, **more)

    monkeypatch.setattr(subprocess, "Popen", noting)
    assert pause_of(waiting).effects == [
        (
            f"Pushes {waiting.branch} to {forge.clone_url}. To undo that: delete the branch "
            "there; no other branch is touched."
        ),
        (
            "Opens a pull request, with this order's title and request. To undo that: close it "
            "there; who watches the repository is told."
        ),
    ]
    order = approve(waiting, ben)
    (pull,) = forge.open
    head = forge.branch_head(order.branch)
    assert order.status == "completed", order.latest_run.error
    assert (pull["branch"], pull["base"], pull["title"]) == (order.branch, "main", "Add a file")
    assert (
        "Please add it" in pull["body"]
        and f"{settings.WAYSTATION_URL}/work-orders/{order.shown_id}/" in pull["body"]
    )
    assert f"`{head[:7]} Add new.txt`" in pull["body"] and "approved by `dec_" in pull["body"]
    url = f"{forge.url}/{PROJECT}/pull/1"
    told = api(ana).get(f"/api/v1/work-orders/{order.shown_id}").json()
    assert (told["github_pull_request_url"], told["git_commit_count"]) == (url, 1)
    assert page.get(f"/work-orders/{order.shown_id}/").content.decode().count(f'href="{url}"') == 2
    assert files_with(TOKEN, settings.WAYSTATION_DATA) == []
    assert TOKEN not in dump() and TOKEN not in caplog.text
    assert "push" in called and not any(TOKEN in word for word in called)


def test_gitlab_takes_a_draft_into_the_base_branch(repository, forge, ana, tmp_path):
    bare = forge.repositories / f"{PROJECT}.git"
    git(bare, "branch", "stable", "main")
    Repository.objects.update(forge="gitlab", pull_request_policy="draft", base_branch="stable")
    order = approve(ordered(repository, ana), ana)
    (pull,) = forge.open
    assert (pull["title"], pull["base"]) == ("Draft: Add a file", "stable")
    assert order.pull_request_url.endswith(f"/{PROJECT}/-/merge_requests/1")


@pytest.mark.parametrize(
    "moment", ["between push and pull request", "between pull request and commit"]
)
def test_a_worker_that_dies_on_the_way_opens_no_second_one(
    waiting, forge, ana, monkeypatch, moment
):
    died: list[bool] = []
    module, name = (
        (delivering, "propose") if moment.startswith("between push") else (record, "done")
    )
    real = getattr(module, name)

    def dying(*arguments: Any) -> Any:
        if died:
            return real(*arguments)
        died.append(True)
        raise moments.Killed

    monkeypatch.setattr(module, name, dying)
    with pytest.raises(moments.Killed):
        approve(waiting, ana)
    assert forge.branch_head(waiting.branch)
    assert len(forge.open) == (0 if module is delivering else 1)
    order = settled(waiting)
    assert (order.status, order.pull_request_url) == ("completed", f"{forge.url}/{PROJECT}/pull/1")
    assert len(forge.pulls) == 1


def test_a_forge_that_is_away_is_tried_again_and_one_that_is_asked_too_much_is_left_alone(
    waiting, forge, ana
):
    """The retry policy tries again, no sooner than the forge wishes; the commits are kept
    meanwhile.
    """
    forge.fail(500)
    order = approve(waiting, ana)
    assert order.status == "pending"
    forge.fail(429, headers={"Retry-After": "600"})
    Run.objects.update(due_at=timezone.now())
    order = drive(order)
    assert (order.latest_run.due_at - timezone.now()).total_seconds() > 500
    assert forge.open == [] and forge.branch_head(order.branch)
    order = settled(order)
    assert order.status == "completed" and len(forge.pulls) == 1


def test_a_push_that_fails_says_how_and_a_retry_loses_nothing(waiting, forge, ana):
    services.decide(pause_of(waiting).pk, Answer("approve", Via.PAGE), by=ana)
    for status, code in ((500, "forge_away"), (429, "forge_limit"), (403, "forge_refused")):
        forge.git_status = status
        order = settled(waiting)
        assert (order.status, order.latest_run.failure_code) == ("failed", code)
        assert "commits are kept" in order.latest_run.error and TOKEN not in order.latest_run.error
        runs.retry(order.pk, by=ana)
    forge.git_status = 0
    order = drive(order)
    assert order.status == "completed" and len(forge.open) == 1


def test_a_branch_that_moved_at_the_origin_is_not_overwritten(waiting, forge, ana):
    bare = forge.repositories / f"{PROJECT}.git"
    git(
        bare,
        "update-ref",
        f"refs/heads/{waiting.branch}",
        git(bare, "commit-tree", "main^{tree}", "-m", "Somebody else's"),
    )
    order = approve(waiting, ana)
    assert order.latest_run.failure_code == "push_rejected"
    assert git(bare, "log", "-1", "--format=%s", waiting.branch) == "Somebody else's"
    assert forge.open == []


def test_nothing_leaves_that_was_never_approved(waiting, forge, ana):
    services.decide(pause_of(waiting).pk, Answer("approve", Via.PAGE), by=ana)
    head = fresh(waiting).thread.head
    assert head is not None
    type(head).objects.filter(pk=head.pk).update(
        metadata={name: one for name, one in head.metadata.items() if name != "approved"}
    )
    assert drive(waiting).latest_run.failure_code == "approval_missing"
    assert forge.branch_head(waiting.branch) == ""


def test_a_step_may_name_whose_approval_it_wants(repository, forge, ana):
    saved = definitions.edit_step_template("deliver", title="Deliver", function="deliver")
    for approved, code in (
        (["execute"], ""),
        (["deliver_test.work"], ""),
        (["excute"], "approval_missing"),
        ("execute", "bad_config"),
        ([""], "bad_config"),
    ):
        # as a release saved it that did not look
        StepTemplate.objects.filter(pk=saved.pk).update(config={"approved": approved})
        order = approve(ordered(repository, ana), ana)
        assert order.latest_run.failure_code == code, approved
        assert bool(forge.branch_head(order.branch)) is not bool(code), approved


def test_what_leaves_is_what_was_shown_less_what_is_forbidden_since(repository, forge, ana):
    for first, later, pushed in (
        # what is forbidden now does not leave
        (("branch", "ready"), ("never", "never"), False),
        (("branch", "ready"), ("branch", "never"), True),
        (("never", "never"), ("branch", "ready"), False),  # nobody was shown that it would
        (("asked", "never"), ("branch", "ready"), False),
        (("branch", "never"), ("branch", "draft"), True),
    ):
        Repository.objects.update(push_policy=first[0], pull_request_policy=first[1])
        order = ordered(repository, ana)
        Repository.objects.update(push_policy=later[0], pull_request_policy=later[1])
        order = approve(order, ana)
        assert (order.status, order.outputs["git_commit_count"]) == ("completed", 1)
        assert bool(forge.branch_head(order.branch)) is pushed, (first, later)
    assert forge.pulls == []


def test_an_operator_puts_the_forge_right_and_a_retry_goes_on(waiting, forge, ana, settings):
    settings.WAYSTATION_FORGES = ["https://api.github.com"]
    order = approve(waiting, ana)
    assert order.latest_run.failure_code == "forge_refused"
    assert "WAYSTATION_FORGES" in order.latest_run.error and forge.seen == []
    settings.WAYSTATION_FORGES = [forge.url]
    Repository.objects.update(credential="gone")
    runs.retry(order.pk, by=ana)
    assert drive(order).latest_run.failure_code == "credential_missing"
    Repository.objects.update(credential="forge-token")
    runs.retry(order.pk, by=ana)
    assert drive(order).status == "completed"


def test_the_shipped_template_ends_in_a_pull_request(repository, forge, ana):
    """S4-62: three checkpoints, three approvals, then completed with commits and
    `github_pull_request_url`.
    """
    order = drive(
        runs.submit("repo-tidy", by=ana, repository_url=repository.url, input={"rules": "F401"})
    )
    for phase in (
        "awaiting_plan_approval",
        "awaiting_implementation_review",
        "awaiting_review_decision",
    ):
        assert order.phase == phase
        order = approve(order, ana)
    assert order.status == "completed", order.latest_run.error
    assert order.outputs["git_commit_count"] > 0
    assert order.pull_request_url == f"{forge.url}/{PROJECT}/pull/1"
    assert f"Pushed {order.branch}" in log_lines(order)
