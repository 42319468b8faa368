"""Threads as documents over REST and by command: who may, what is refused, and with which code."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from jsonschema import Draft202012Validator

from checkpoints.models import Thread
from checkpoints.state import codec
from hitl.decisions import services
from hitl.decisions.services import Answer
from hitl.models import Import, Via
from hitl.threads import export as whole
from tests.conftest import drive, pause_of
from tests.databases.encryption_keys import NEW, OLD, keys
from tests.worlds.histories.documents import alike, signed

pytestmark = pytest.mark.django_db


@pytest.fixture
def zoe(zoe):
    """A stranger who may import."""
    zoe.user_permissions.add(Permission.objects.get(codename="import_thread"))
    return zoe


@pytest.fixture
def told(make_order, ana):
    order = drive(make_order())
    services.decide(pause_of(order).pk, Answer("approve", Via.PAGE), by=ana)
    return drive(order)


def url(order, verb="export"):
    return f"/api/v1/threads/{order.thread.shown_id}/{verb}"


def post(client, document, query=""):
    raw = document if isinstance(document, bytes) else json.dumps(document).encode()
    return client.post(f"/api/v1/threads/import{query}", raw, content_type="application/json")


def test_a_document_goes_from_one_person_to_another(told, api, ben, zoe):
    """Ben is in the team and may take it out; Zoe brings it in as her own."""
    taken = api(ben).get(url(told))
    assert taken.status_code == 200
    assert taken["Content-Disposition"] == f'attachment; filename="{told.thread.shown_id}.json"'
    document = json.loads(taken.content)
    made = post(api(zoe), taken.content)
    assert made.status_code == 201
    assert (made.json()["owner"], made.json()["team"], made.json()["work_order_id"]) == (
        "zoe",
        None,
        None,
    )
    again = api(zoe).get(f"/api/v1/threads/{made.json()['id']}/export")
    assert alike(json.loads(again.content)) == alike(document)
    history = api(zoe).get(f"/api/v1/threads/{made.json()['id']}/history").json()["results"]
    assert len(history) == len(document["checkpoints"])
    assert api(zoe).get(f"/api/v1/threads/{made.json()['id']}/state").json()["values"][
        "drafts"
    ] == ["first"]


def test_an_imported_run_is_resumed_over_rest(told, api, zoe):
    made = post(api(zoe), api(User.objects.get(username="ana")).get(url(told)).content).json()
    run = api(zoe).get(f"/api/v1/threads/{made['id']}/runs").json()["results"][0]
    assert (run["status"], run["failure_code"]) == ("failed", "imported")
    resumed = api(zoe).post(f"/api/v1/runs/{run['id']}/resume", {}, format="json")
    assert (resumed.status_code, resumed.json()["run"]["status"]) == (200, "pending")


def test_importing_needs_a_right_which_is_asked_before_the_document_is_read(
    told, api, ana, settings
):
    """Before, any user could bring in whatever she had written herself."""
    settings.WAYSTATION_IMPORT_BYTES = 10
    document = api(ana).get(url(told)).content
    refused = post(api(ana), document)
    assert (refused.status_code, refused.json()["code"]) == (403, "import_not_allowed")
    assert post(api(ana), b"[" * 100_000).json()["code"] == "import_not_allowed"
    ana.user_permissions.add(Permission.objects.get(codename="import_thread"))
    assert post(api(ana), document).json()["code"] == "document_too_large"


def test_the_team_may_be_named_by_its_members_only(told, api, ben, zoe):
    ben.user_permissions.add(Permission.objects.get(codename="import_thread"))
    document = api(ben).get(url(told)).content
    assert post(api(ben), document, "?team=platform").json()["team"] == "platform"
    refused = post(api(zoe), document, "?team=platform")
    assert refused.status_code == 422
    assert Import.objects.count() == 1


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b"", 422, "document_invalid"),
        (b"{}", 422, "document_invalid"),
        (b'{"format": "waystation-thread", "version": 99}', 422, "unknown_version"),
        (b"[" * 100_000, 422, "document_too_deep"),
        (b"\x80\x04K\x01.", 422, "document_invalid"),
        (b" " * 3_000, 413, "document_too_large"),
    ],
)
def test_nonsense_is_a_problem_document_with_its_code(api, zoe, settings, raw, status, code):
    """Never a 500 (F15: and never anything but JSON)."""
    settings.WAYSTATION_IMPORT_BYTES = 200_000 if status == 422 else 2_000
    answered = post(api(zoe), raw)
    assert (answered.status_code, answered.json()["code"]) == (status, code)
    assert answered["Content-Type"] == "application/problem+json"
    assert not Thread.objects.exists()


def test_a_changed_document_is_refused(told, api, ana, zoe):
    document = json.loads(api(ana).get(url(told)).content)
    document["events"][0]["data"]["checkpoint_id"] = "ckpt_0"
    refused = post(api(zoe), document)
    assert (refused.status_code, refused.json()["code"]) == (422, "digest_mismatch")
    document["checkpoints"][0]["state"]["drafts"] = ["never"]
    refused = post(api(zoe), signed(document))
    assert (refused.status_code, refused.json()["code"]) == (422, "digest_mismatch")
    assert document["checkpoints"][0]["id"] in refused.json()["detail"]


def test_another_media_type_is_not_read(api, zoe):
    assert api(zoe).post(
        "/api/v1/threads/import", {"file": "x"}, format="multipart"
    ).status_code in {400, 415}


def test_what_is_locked_is_not_exported_and_the_key_is_named(make_order, api, ana):
    with keys(OLD):
        order = drive(make_order())
    with keys(NEW):
        refused = api(ana).get(url(order))
        assert (refused.status_code, refused.json()["code"]) == (503, "encryption_key_missing")


# commands


def command(*arguments):
    out, err = StringIO(), StringIO()
    call_command(*arguments, stdout=out, stderr=err)
    return out.getvalue()


def test_the_commands_take_out_and_bring_in(told, zoe, tmp_path):
    file = tmp_path / "thread.json"
    command("export_thread", told.thread.shown_id, "--output", str(file))
    assert (
        json.loads(command("export_thread", told.thread.shown_id))["checkpoints"]
        == json.loads(file.read_text())["checkpoints"]
    )
    made = command("import_thread", str(file), "--owner", "zoe").split()[-1]
    thread = Thread.objects.get(owner=zoe)
    assert thread.shown_id == made
    assert alike(whole.export(thread.pk)) == alike(json.loads(file.read_text()))


def test_the_command_prints_the_schema():
    Draft202012Validator.check_schema(json.loads(command("export_thread", "--schema")))


def test_no_such_thread_is_said():
    for thread in ("", "thr_x", f"run_{'0' * 26}", f"thr_{'0' * 26}"):
        with pytest.raises(CommandError, match=r"no thr_ id|no such thread"):
            command("export_thread", thread)


def test_a_file_that_is_there_is_not_written_over(told, tmp_path):
    file = tmp_path / "kept"
    file.write_text("kept")
    with pytest.raises(CommandError, match="nothing was written"):
        command("export_thread", told.thread.shown_id, "--output", str(file))
    assert file.read_text() == "kept"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--owner", "nobody"], "no active user"),
        (["--owner", "zoe", "--team", "platform"], "in no group"),
        (["--owner", "zoe"], "document_invalid"),
    ],
)
def test_an_import_that_cannot_be_is_said(team, zoe, tmp_path, arguments, words):
    file = tmp_path / "thread.json"
    file.write_text(codec.encode({"format": "other"}))
    with pytest.raises(CommandError, match=words):
        command("import_thread", str(file), *arguments)
    with pytest.raises(CommandError, match="nothing was imported"):
        command("import_thread", str(tmp_path / "none"), "--owner", "zoe")
