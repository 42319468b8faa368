"""The address is one's own, and an id in the body or the query is somebody else's."""

from __future__ import annotations

import pytest

from hitl.channels import accounts
from hitl.models import ChatAccount, Decision
from runs.models import Pause, Run
from tests.conftest import drive, head_of, pause_of
from tests.databases.whole import rows
from tests.doors import factors
from tests.runs.engine.children.crews import ASKING, kids, sub, work_off
from tests.runs.engine.children.crews import crew as crew

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("templates")]


@pytest.fixture
def mine(make_order, zoe):
    """A stranger's own order, which waits as Ana's does."""
    return drive(make_order(by=zoe, team=None))


BODIES = {
    "an answer through one's own order": ("post", "work-orders/{own}/resume",
        {"decision": "approve", "pause_id": "{pause}"}),
    "an answer through one's own thread": ("post", "threads/{thread}/runs",
        {"input": "APPROVE", "pause_id": "{pause}"}),
    "an answer by trace and prompt": ("post", "resume",
        {"traceId": "{own}", "promptId": "{pause}", "response": "approve"}),
    "a checkpoint that one's own run resumes from": ("post", "runs/{run}/resume",
        {"checkpoint_id": "{checkpoint}"}),
    "a checkpoint that one's own thread goes on from": ("post", "threads/{thread}/runs",
        {"input": "x", "checkpoint_id": "{checkpoint}"}),
    "a checkpoint that one's own is compared with": ("get",
        "checkpoints/{own_checkpoint}/diff?against={checkpoint}", None),
    "a team that one is not in": ("post", "work-orders",
        {"template": "writing", "title": "x", "request": "x", "team": "platform"}),
    "a template and a team of a view": ("post", "views",
        {"list": "orders", "name": "x", "query": "", "team": "platform"}),
}  # fmt: skip


def filled(value, ids):
    if isinstance(value, dict):
        return {name: filled(one, ids) for name, one in value.items()}
    return value.format(**ids) if isinstance(value, str) else value


@pytest.mark.parametrize(("method", "path", "body"), BODIES.values(), ids=BODIES)
def test_somebody_elses_id_at_ones_own_address_is_nothing(
    api, zoe, paused, mine, method, path, body
):
    """The matrix goes to others' addresses; here the address is right and what it names is not."""
    ids = {
        "own": mine.shown_id, "thread": mine.thread.shown_id, "run": mine.latest_run.shown_id,
        "own_checkpoint": head_of(mine).shown_id, "checkpoint": head_of(paused).shown_id,
        "pause": pause_of(paused).shown_id,
    }  # fmt: skip
    Pause.objects.filter(pk=pause_of(paused).pk).update(content="SECRET")
    ask = getattr(api(zoe), method)
    before = rows()
    answer = ask(f"/api/v1/{filled(path, ids)}", filled(body, ids), format="json")
    assert 400 <= answer.status_code < 500, answer.content
    assert b"SECRET" not in answer.content
    assert rows() == before
    assert Pause.objects.open().filter(pk=pause_of(paused).pk).exists()


@pytest.mark.parametrize("path", ["runs/{run}", "runs/{run}/checkpoints", "pauses/{pause}"])
def test_a_child_run_is_seen_by_nobody_who_does_not_see_its_order(api, zoe, crew, path):
    order = crew([sub("one", **ASKING), sub("two", **ASKING)], parallel=True)
    work_off()
    child = kids(order)["one"]
    pause = Pause.objects.open().get(run=child)
    ids = {"run": child.shown_id, "pause": pause.shown_id}
    stranger = api(zoe)
    assert stranger.get(f"/api/v1/{path.format(**ids)}").status_code == 404
    before = rows()
    for act, body in (
        ("runs/{run}/cancel", {}), ("runs/{run}/input", {"content": "APPROVE"}),
        ("runs/{run}/resume", {}), ("pauses/{pause}/decisions", {"decision": "approve"}),
        ("pauses/{pause}/presence", {"writing": True}),
    ):  # fmt: skip
        answer = stranger.post(f"/api/v1/{act.format(**ids)}", body, format="json")
        assert answer.status_code == 404, (act, answer.content)
    assert rows() == before
    assert Run.objects.live().filter(pk=child.pk).exists()


def test_a_recovery_code_of_somebody_else_lets_nobody_in(ana, ben, client):
    factors.enrol(ana)
    factors.enrol(ben)
    [theirs, *_] = factors.recovery_codes(ana)
    factors.log_in(client, ben, second=False)
    client.post("/login/factor", {"code": theirs})
    assert client.get("/", follow=False).status_code == 302
    assert theirs in factors.recovery_codes(ana)


def test_an_account_in_a_chat_is_nobodys_once_its_person_is_switched_off(paused, ben):
    ChatAccount.objects.create(service="teams", team="t", account="w", user=ben)
    code = accounts.new_code(ben)
    ben.is_active = False
    ben.save()
    assert accounts.person_of("teams", "t", "w") is None
    assert accounts.connect("teams", "t", "v", code) is None
    assert not Decision.objects.exists()
