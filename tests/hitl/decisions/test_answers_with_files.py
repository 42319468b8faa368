"""Files that come with an answer: an upload on a page, a form or base64 over REST. The run has them
as artifacts, states and decisions name them.
"""

from __future__ import annotations

import base64
import json
import zlib

import pytest
from django.contrib.auth import get_user_model
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from checkpoints.state import codec
from hitl.models import Decision, IdempotencyKey
from runs import limits
from runs.models import Artifact, Upload, uploads
from runs.services import uploads as services
from runs.workflows import attachments
from runs.workflows.base import Done, read
from runs.workflows.wait_for_input import wait_for_input
from tests.conftest import drive, pause_of
from tests.doors.rest import ana_api as ana_api
from tests.doors.rest import problem
from tests.worlds.scripted_step import order_that as order_that
from tests.worlds.scripted_step import state_of

pytestmark = pytest.mark.django_db

FORM = {
    "type": "object",
    "required": ["town", "scan"],
    "properties": {
        "town": {"type": "string", "title": "Town", "maxLength": 40},
        "scan": attachments.schema_of("Scan of the invoice", path=False),
        "pages": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"page": attachments.schema_of("Page", path=False)},
            },
        },
    },
}
PNG = b"\x89PNG\r\n\x1a\n" + zlib.compress(b"pixels")
SCAN = {"name": "scan.png", "content": base64.b64encode(PNG).decode()}
READ: list[bytes] = []


def asks(state, context):
    question = wait_for_input(
        state, context, required_inputs=FORM, blocking_reason="missing", question="What came?"
    )
    if question is not None:
        return question
    READ.append(context.content_of(state["scan"]))
    return Done()


@pytest.fixture
def waiting(order_that):
    READ.clear()
    return drive(order_that(asks))


def address(order) -> str:
    return f"/api/v1/pauses/{pause_of(order).shown_id}/decisions"


@pytest.fixture
def page(waiting, ana):
    client = Client()
    client.force_login(ana)

    def post(**fields):
        pause = pause_of(waiting)
        fields = {
            "action": "answer",
            "revision": pause.revision,
            "content_digest": pause.content_digest,
            **fields,
        }
        return client.post(reverse("hitl:decide", args=[pause.pk]), fields)

    return client, post


def sent_file(content=PNG, name="scan.png"):
    return SimpleUploadedFile(name, content)


def test_a_file_is_an_artifact_of_the_run_and_no_part_of_its_state(waiting, ana_api):
    response = ana_api.post(
        address(waiting),
        {"decision": "answer", "input": {"town": "Graz", "scan": SCAN}},
        format="json",
    )

    assert response.status_code == 201, response.json()
    order = drive(waiting)
    kept = {"name": "scan.png", "bytes": len(PNG), "sha256": codec.digest(PNG)}
    decision = Decision.objects.get()
    assert decision.payload == {"town": "Graz", "scan": kept}
    assert state_of(order)["scan"] == kept
    assert SCAN["content"] not in json.dumps(state_of(order))
    artifact = Artifact.objects.get()
    assert (artifact.step, artifact.name, artifact.filename) == ("execute", "scan", "scan.png")
    assert (artifact.media, artifact.digest) == ("image/png", kept["sha256"])
    assert (order.status, READ) == ("completed", [PNG])


def test_a_form_over_rest_brings_files_beside_its_json(waiting, ana_api):
    """`curl -F decision=answer -F 'input={…}' -F input.scan=@scan.png`."""
    response = ana_api.post(
        address(waiting),
        {
            "decision": "answer",
            "revision": "1",
            "input": json.dumps({"town": "Graz", "pages": [{}]}),
            "input.scan": sent_file(),
            "input.pages.0.page": sent_file(b"%PDF-1.7", "one.pdf"),
        },
        format="multipart",
    )

    assert response.status_code == 201, response.json()
    payload = Decision.objects.get().payload
    assert payload["scan"]["sha256"] == codec.digest(PNG)
    assert payload["pages"][0]["page"]["name"] == "one.pdf"
    assert set(Artifact.objects.values_list("name", "media")) == {
        ("scan", "image/png"),
        ("pages.0.page", "application/pdf"),
    }


def test_a_form_that_is_sent_again_under_its_key_is_one_answer(waiting, ana_api):
    """Each time that a client sends a form, it makes another boundary."""
    sent = {"decision": "answer", "input": '{"town": "Graz"}'}
    answers, there = [], address(waiting)
    for boundary in ("one", "another"):
        parts = [
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in sent.items()
        ]
        file = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="input.scan"; '
            'filename="scan.png"\r\n\r\n'
        )
        body = "".join(parts).encode() + file.encode() + PNG + f"\r\n--{boundary}--\r\n".encode()
        answers.append(
            ana_api.post(
                there,
                body,
                content_type=f"multipart/form-data; boundary={boundary}",
                headers={"Idempotency-Key": "scan-1"},
            )
        )

    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json() == answers[1].json()
    assert (Decision.objects.count(), Artifact.objects.count()) == (1, 1)
    assert IdempotencyKey.objects.count() == 1


def test_a_file_that_cannot_be_taken_is_refused_at_its_field(waiting, ana_api, subtests):
    for scan, words in [
        ({"name": "x", "content": ""}, "Send the file once"),
        ({"name": "x", "content": "no base64!"}, "not base64"),
        ({"path": "/etc/passwd"}, "not inside a folder"),
        ({"upload": "upl_00000000000000000000000000"}, "not kept any more"),
        ({"sha256": "0" * 64}, "no such file here"),
        ({"sha256": "\x00"}, "no such file here"),
        ({"sha256": "\ud800"}, "no such file here"),
        ({"content": "QQ==", "upload": "upl_00000000000000000000000000"}, "Send the file once"),
        ({"name": "x", "content": "A" * (attachments.LONGEST + 4)}, "up to 5,000,000"),
        ("scan.png", "Must be an object"),
        ({}, "Send the file once"),
    ]:
        with subtests.test(ascii(scan)[:60]):
            sent = {"decision": "answer", "input": {"town": "Graz", "scan": scan}}
            response = ana_api.post(address(waiting), sent, format="json")

            fields = problem(response, 422, "input_invalid")["errors"]
            assert list(fields) == ["input.scan"]
            assert words in fields["input.scan"][0]
            assert pause_of(waiting).refined.startswith("Scan of the invoice: ")
            assert not Artifact.objects.exists()


def test_a_form_whose_file_has_no_place_is_400(waiting, ana_api, subtests):
    for fields, named in [
        ({"scan": sent_file()}, "scan"),
        ({"input": "[]", "input.scan": sent_file()}, "input.scan"),
        ({"input": "{", "input.scan": sent_file()}, "input"),
        ({"input.pages.7.page": sent_file()}, "input.pages.7.page"),
    ]:
        with subtests.test(named):
            sent = {"decision": "answer", "input": '{"pages": []}', **fields}
            response = ana_api.post(address(waiting), sent, format="multipart")

            assert named in problem(response, 400, "invalid")["errors"]


def test_an_uploaded_file_is_kept_when_something_else_is_wrong(waiting, ana, page):
    client, post = page
    response = post(**{"input.town": "", "input.scan": sent_file()})

    html = response.content.decode()
    upload = Upload.objects.get(owner=ana)
    assert response.status_code == 422
    assert '<a href="#id_input_town">Enter “Town”.</a>' in html
    assert f'value="{upload.shown_id} {len(PNG)} image/png scan.png"' in html
    assert f'<img src="/uploads/{upload.shown_id}?preview"' in html
    assert not Artifact.objects.exists()
    picture = client.get(f"/uploads/{upload.shown_id}?preview")
    assert (picture["Content-Type"], picture.content) == ("image/png", PNG)

    kept = f"{upload.shown_id} {len(PNG)} image/png scan.png"
    assert post(**{"input.town": "Graz", "input.scan.kept": kept}).status_code == 302
    assert Decision.objects.get().payload["scan"]["sha256"] == codec.digest(PNG)
    drive(waiting)
    assert READ == [PNG]


def test_a_file_that_is_too_large_or_empty_is_said_at_its_field(page):
    _, post = page
    response = post(**{"input.town": "Graz", "input.scan": sent_file(b"x" * 5_000_001)})

    assert response.status_code == 422
    assert "up to 5,000,000 can be taken" in response.content.decode()
    assert not Upload.objects.exists()


def test_nobody_answers_with_the_upload_of_somebody_else(waiting, ben, page):
    _, post = page
    theirs = services.upload(PNG, "scan.png", owner=ben, field="scan")
    kept = f"{theirs.shown_id} {len(PNG)} image/png scan.png"

    response = post(**{"input.town": "Graz", "input.scan.kept": kept})

    assert response.status_code == 422
    assert "The file is not kept any more." in response.content.decode()
    assert not Decision.objects.exists()


def test_an_upload_is_shown_to_its_owner_alone(ana, ben):
    upload = services.upload(PNG, "scan.png", owner=ana, field="scan")
    client = Client()
    client.force_login(ben)

    assert client.get(f"/uploads/{upload.shown_id}").status_code == 404


@pytest.mark.parametrize("query", ["", "?preview"])
def test_what_could_act_in_a_browser_is_only_saved(ana, query, subtests):
    client = Client()
    client.force_login(ana)
    for content, name in [
        (b"<html><script>alert(1)</script>", "page.html"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "picture.svg"),
        (b"GIF", "no.gif"),
        (b"%PDF-1.7", "paper.pdf"),
    ]:
        with subtests.test(name):
            upload = services.upload(content, name, owner=ana, field="scan")

            response = client.get(f"/uploads/{upload.shown_id}{query}")

            assert response["Content-Type"] == "application/octet-stream"
            assert response["Content-Disposition"] == f'attachment; filename="{name}"'
            assert response["X-Content-Type-Options"] == "nosniff"
            assert response["Content-Security-Policy"] == "default-src 'none'; sandbox"


def test_who_sees_the_run_reads_its_files_and_nobody_else_does(waiting, ana_api, api, page):
    client, post = page
    assert post(**{"input.town": "Graz", "input.scan": sent_file()}).status_code == 302
    artifact = Artifact.objects.get()
    stranger = get_user_model().objects.create_user("stranger")

    shown = client.get(f"/artifacts/{artifact.shown_id}?preview")
    whole = ana_api.get(f"/api/v1/artifacts/{artifact.shown_id}").json()
    bytes_of = ana_api.get(f"/api/v1/artifacts/{artifact.shown_id}/content")

    assert (shown["Content-Type"], shown.content) == ("image/png", PNG)
    assert (whole["media"], whole["filename"], whole["content"]) == ("image/png", "scan.png", "")
    assert bytes_of.content == PNG
    assert bytes_of["Content-Disposition"] == 'attachment; filename="scan.png"'
    for path in ("", "/content"):
        answer = api(stranger).get(f"/api/v1/artifacts/{artifact.shown_id}{path}")
        problem(answer, 404, "not_found")


def test_a_step_reads_no_file_by_a_digest_that_a_state_merely_names(order_that, ana):
    """Whoever writes a state knows digests; bytes are read where they were handed in."""
    store_of_others = services.upload(b"secret", "secret.txt", owner=ana, field="scan")

    def reads(state, context):
        context.content_of({"name": "x", "bytes": 6, "sha256": store_of_others.digest})
        return Done()

    order = drive(order_that(reads))

    assert (order.status, order.latest_run.failure_code) == ("failed", "file_missing")


def test_a_model_asks_for_a_file_by_its_type():
    from pydantic import BaseModel, Field

    from runs.workflows import File, schema_of

    class Invoice(BaseModel):
        scan: File = Field(title="Scan")
        more: File | None = None

    schema = schema_of(Invoice)
    kept = {"name": "a.png", "bytes": 3, "sha256": "0" * 64}

    assert attachments.names_in(schema) == ["scan", "more"]
    assert schema["properties"]["scan"]["title"] == "Scan"
    assert read(Invoice, {"scan": kept, "more": None}).scan == File("a.png", 3, "0" * 64)


def test_the_newest_uploads_of_a_person_are_kept_and_for_a_day(ana, monkeypatch):
    monkeypatch.setattr(services, "UPLOADS", 2)
    rows = [services.upload(bytes([n]), f"{n}", owner=ana, field="scan") for n in range(1, 4)]

    assert set(Upload.objects.values_list("name", flat=True)) == {"2", "3"}
    Upload.objects.filter(pk=rows[1].pk).update(made_at=rows[1].made_at - uploads.KEPT)
    uploads.drop_old()
    assert Upload.objects.get().name == "3"
    assert limits.UPLOADS > 2


def test_the_text_of_a_pdf_is_read_in_a_process_of_its_own(ana):
    upload = services.upload(b"%PDF-1.7 damaged", "paper.pdf", owner=ana, field="scan")
    client = Client()
    client.force_login(ana)

    response = client.get(f"/uploads/{upload.shown_id}?text")

    assert (response.status_code, response.content) == (200, b"")
    assert response["Content-Type"] == "text/plain; charset=utf-8"


@pytest.mark.django_db
def test_a_file_of_more_than_may_be_is_refused_with_its_size(ben, monkeypatch):
    """FILE_BYTES: by pages, REST and multipart, which all come here."""
    monkeypatch.setattr(services, "MAX_BYTES", 3)
    with pytest.raises(services.BadFile, match="4"):
        services.upload(b"four", "a.txt", owner=ben, field="Scan")
    assert not Upload.objects.exists()


def test_the_pages_of_an_order_show_a_thumbnail_of_a_picture_and_the_text_of_a_paper(
    waiting, ana_api, page
):
    """Issue 36: they were names alone."""
    client, _ = page
    paper = {"name": "a.txt", "content": base64.b64encode(b"Dear all").decode()}
    body = {"town": "Graz", "scan": SCAN, "pages": [{"page": paper}]}
    answer = ana_api.post(address(waiting), {"decision": "answer", "input": body}, format="json")
    assert answer.status_code == 201, answer.json()
    drive(waiting)
    picture = Artifact.objects.get(media="image/png")
    text = Artifact.objects.get(media="text/plain")
    shown = client.get(f"/work-orders/{waiting.shown_id}/").content.decode()
    assert f'<img src="/artifacts/{picture.shown_id}?preview"' in shown
    assert 'alt="Preview of scan.png"' in shown
    assert shown.count("?preview") == 1
    assert f'<a href="/artifacts/{text.shown_id}?text">Show its text</a>' in shown
    seen = client.get(f"/artifacts/{picture.shown_id}?preview")
    assert (seen["Content-Type"], seen.content) == ("image/png", PNG)
    Artifact.objects.update(digest="", dropped_at=timezone.now())
    shown = client.get(f"/work-orders/{waiting.shown_id}/").content.decode()
    assert "?preview" not in shown and "?text" not in shown
