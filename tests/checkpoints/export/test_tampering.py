"""Documents that were changed: whatever was done to one is found, and nothing is imported."""

from __future__ import annotations

import json
import pickle

import pytest

from checkpoints.export import thread_document
from checkpoints.export.schema import VERSION
from checkpoints.export.thread_document import ImportRefused
from checkpoints.state import codec
from hitl.models import Import
from hitl.threads import export as whole
from tests.databases.encryption_keys import dump
from tests.worlds.histories.documents import changed, places, signed
from tests.worlds.histories.exported import LIMIT, read
from tests.worlds.histories.exported import told as told

# its parts are asked of each database by their own tests
pytestmark = [pytest.mark.django_db, pytest.mark.one_database]


def test_a_change_of_any_value_is_found(told, zoe):
    """Wherever it is: the document's digest covers everything."""
    document = json.loads(codec.encode(whole.export(told.thread_id)))
    for path in places(document):
        raw = codec.encode(changed(document, path)).encode()
        with pytest.raises(ImportRefused):
            thread_document.read(raw, limit=LIMIT)


def test_a_change_of_any_state_is_found_though_the_document_was_signed_again(told, zoe):
    document = json.loads(codec.encode(whole.export(told.thread_id)))
    count = 0
    for index, row in enumerate(document["checkpoints"]):
        name = "state" if "state" in row else "change"
        for path in places(row[name], ("checkpoints", index, name)):
            if isinstance(path[-1], str) and path[-1] in {"unset", "set"}:
                continue  # an empty list or object: there is no value in it to change
            with pytest.raises(ImportRefused):
                whole.load(read(changed(document, path)), owner=zoe)
            count += 1
    assert count > 5
    assert not Import.objects.exists()


def cycle(document):
    document["checkpoints"][0]["parent_id"] = document["checkpoints"][-1]["id"]
    document["checkpoints"][0]["change"] = {
        "set": document["checkpoints"][0].pop("state"),
        "unset": [],
    }


def orphan(document):
    document["checkpoints"][1]["parent_id"] = "ckpt_" + "0" * 26


def two_ids(document):
    document["checkpoints"][1]["id"] = document["checkpoints"][0]["id"]


def two_numbers(document):
    document["events"][1]["seq"] = document["events"][0]["seq"]


def two_pauses(document):
    document["pauses"][1]["id"] = document["pauses"][0]["id"]


def other_head(document):
    document["thread"]["head"] = document["checkpoints"][0]["id"]


def no_head(document):
    document["thread"]["head"] = None


def bad_blob(document):
    document["blobs"] = dict.fromkeys(document["blobs"], "AAAA")


def no_base64(document):
    document["blobs"] = dict.fromkeys(document["blobs"], "é")


def no_blob(document):
    document["blobs"] = {}


def foreign_bundle(document):
    document["checkpoints"][0]["metadata"]["git"] = {
        "commit": "a",
        "base": "b",
        "bundle": codec.digest("somebody else's"),
    }


def a_secret(document):
    root = document["checkpoints"][0]
    root["state"]["token"] = "s3cr3t"


def a_deeper_secret(document):
    document["checkpoints"][1]["change"]["set"]["login"] = [{"password": "s3cr3t"}]


def a_secret_event(document):
    document["events"][0]["data"]["api_key"] = "s3cr3t"


def no_change(document):
    document["checkpoints"][1]["change"] = {"set": []}


def odd_change(document):
    document["checkpoints"][1]["change"] = {"set": {}, "unset": [], "extend": {"nothing": [1]}}


def a_nul(document):
    document["runs"][0]["reason"] = "a\x00b"


def a_nul_title(document):
    document["thread"]["title"] = "\x00"


def huge_number(document):
    document["checkpoints"][0]["loop_num"] = 2**31


def odd_loops(document):
    document["checkpoints"][0]["metadata"]["loops"] = {"plan": "x"}


def no_time(document):
    document["events"][0]["at"] = "yesterday"


def local_time(document):
    document["events"][0]["at"] = "2026-01-01T00:00:00"


def wild_time(document):
    document["checkpoints"][0]["created_at"] = "2026-13-45T00:00:00+00:00"


def unknown_kind(document):
    document["events"][0]["event"] = "exploded"


def more(document):
    document["checkpoints"][0]["body"] = "x"


def too_deep(document):
    value: list[object] = []
    for _ in range(200):
        value = [value]
    document["checkpoints"][0]["state"]["deep"] = value


def next_version(document):
    document["version"] = VERSION + 1


def earlier_version(document):
    """None was released."""
    document["version"] = VERSION - 1


def no_version(document):
    del document["version"]


def other_format(document):
    document["format"] = "pickle"


def large_id(document):
    old, new = document["runs"][0]["id"], "run_z" + "z" * 25
    text = codec.encode(document).replace(old, new)
    document.update(json.loads(text))


REFUSALS = {
    cycle: "parent_cycle", orphan: "parent_missing", two_ids: "duplicate_id",
    two_numbers: "duplicate_id", two_pauses: "duplicate_id",
    other_head: "head_invalid", no_head: "head_invalid", bad_blob: "blob_mismatch",
    no_base64: "blob_mismatch", no_blob: "blob_missing",
    foreign_bundle: "blob_missing", a_secret: "secret_in_document",
    a_deeper_secret: "secret_in_document",
    a_secret_event: "secret_in_document", no_change: "document_invalid",
    odd_change: "document_invalid", a_nul: "document_invalid",
    a_nul_title: "document_invalid", huge_number: "document_invalid", odd_loops: "document_invalid",
    no_time: "document_invalid",
    local_time: "document_invalid", wild_time: "document_invalid", unknown_kind: "document_invalid",
    more: "document_invalid",
    too_deep: "state_not_json", next_version: "unknown_version",
    earlier_version: "unknown_version", no_version: "unknown_version",
    other_format: "document_invalid",
    large_id: "document_invalid",
}  # fmt: skip


def test_nonsense_is_refused_by_name_and_leaves_nothing(told, zoe):
    """Each signed again, so that the digest alone does not give it away."""
    exported, before, refusals = codec.encode(whole.export(told.thread_id)), dump(), {}
    for harm in REFUSALS:
        document = json.loads(exported)
        harm(document)
        try:
            whole.load(thread_document.read(signed(document), limit=LIMIT), owner=zoe)
        except ImportRefused as refused:
            ends = str(refused).endswith("Nothing was imported.")
            refusals[harm] = refused.code if ends else str(refused)
    assert refusals == REFUSALS
    assert dump() == before


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "document_invalid"),
        (b"\xff\xfe", "document_invalid"),
        (b"null", "document_invalid"),
        (b"[]", "document_invalid"),
        (b'{"format": NaN}', "document_invalid"),
        (b"1" * 5000, "document_invalid"),
        (b"[" * 100_000, "document_too_deep"),
        (pickle.dumps({"format": "waystation-thread"}), "document_invalid"),
        (b" " * (LIMIT + 1), "document_too_large"),
        (b'{"format": "waystation-thread", "version": 4}', "document_invalid"),
        (b'{"format": "waystation-thread", "version": [1]}', "unknown_version"),
    ],
)
def test_what_is_no_document_is_refused(raw, code):
    """F15: nothing but JSON is ever read."""
    with pytest.raises(ImportRefused) as refused:
        thread_document.read(raw, limit=LIMIT)
    assert refused.value.code == code
