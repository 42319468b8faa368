"""Webhooks are verified as Standard Webhooks has it, against the server's own signer."""

from __future__ import annotations

import json
from typing import cast

import pytest

from hitl.outbound import signatures
from waystation_client import WebhookInvalid, verify_webhook

NOW = 1_790_000_000
SECRET, OTHER = signatures.new_secret(), signatures.new_secret()
BODY = json.dumps({"event": "run_completed", "text": "Zoë"}).encode()


def signed(*secrets, body=BODY, at=NOW):
    return signatures.headers("msg_1", at, body, secrets)


def test_what_the_server_signed_is_taken_whatever_the_case_of_its_headers():
    """Also while the secret is changed, on both ends."""
    for headers, secret in (
        (signed(SECRET), SECRET),
        ({name.title(): value for name, value in signed(SECRET).items()}, SECRET),
        (signed(OTHER, SECRET), SECRET),
        (signed(SECRET), [OTHER, SECRET]),
    ):
        message = verify_webhook(BODY, headers, secret, now=NOW + 10)
        assert (message.id, message.sent_at, message.data) == ("msg_1", NOW, json.loads(BODY))


UNNAMED = signed(SECRET)["webhook-signature"].removeprefix("v1,")
"""A right signature that does not say which kind it is."""


@pytest.mark.parametrize(
    ("headers", "body", "now"),
    [
        (signed(OTHER), BODY, NOW),
        (signed(SECRET), BODY + b" ", NOW),
        ({**signed(SECRET), "webhook-id": "msg_2"}, BODY, NOW),
        ({**signed(SECRET), "webhook-timestamp": str(NOW + 1)}, BODY, NOW),
        (signed(SECRET), BODY, NOW + 301),
        (signed(SECRET), BODY, NOW - 301),
        ({**signed(SECRET), "webhook-signature": "v1,"}, BODY, NOW),
        ({**signed(SECRET), "webhook-signature": UNNAMED}, BODY, NOW),
        ({"webhook-id": "msg_1"}, BODY, NOW),
        ({**signed(SECRET), "webhook-timestamp": "١٢٣"}, BODY, NOW),
        ({**signed(SECRET), "webhook-id": "msg_\udcff"}, BODY, NOW),
        ({**signed(SECRET), "webhook-signature": "v1,\udcff"}, BODY, NOW),
        ({}, BODY, NOW),
        (signed(SECRET, body=b"no JSON"), b"no JSON", NOW),
    ],
)  # fmt: skip
def test_what_is_forged_changed_or_old_is_refused(headers, body, now):
    with pytest.raises(WebhookInvalid):
        verify_webhook(body, headers, SECRET, now=now)


def test_a_secret_that_is_none_is_the_programmers_mistake_and_is_not_repeated():
    """An empty environment variable must not let an empty key verify what anybody signed."""
    for secret in ("", "whsec_", "whsec_c2hvcnQ=", "no base64 at all!"):
        with pytest.raises(ValueError, match="at least 24 bytes") as refused:
            verify_webhook(BODY, signed(SECRET), secret, now=NOW)
        assert not secret or secret not in str(refused.value).removeprefix("A secret is whsec_")
    with pytest.raises(TypeError, match="bytes"):
        verify_webhook(cast(bytes, BODY.decode()), signed(SECRET), SECRET, now=NOW)
