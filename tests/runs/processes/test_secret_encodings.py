"""A secret is found in its usual encodings too, in whatever a run writes."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints.models import Event, Memo
from checkpoints.state.redaction import MARKER
from runs.engine.context.secret_filter import PiecewiseFilter, SecretFilter
from runs.models import Run
from runs.processes import secret_encodings
from runs.security import credentials
from runs.workflows.base import Context, Go, Outcome, State
from tests.conftest import drive, state_at_head
from tests.databases.encryption_keys import NEW, keys
from tests.databases.whole import file_database as file_database
from tests.worlds.scripted_step import order_that as order_that

SECRETS = st.text(st.characters(exclude_categories=["Cs"]), min_size=8, max_size=60).filter(
    lambda text: text not in MARKER
)
WRITTEN: dict[str, Callable[[str], str]] = {
    "to the letter": str,
    "hex": lambda text: text.encode().hex(),
    "HEX": lambda text: text.encode().hex().upper(),
    "quote": quote,
    "quote all": lambda text: quote(text, safe=""),
    "quote plus": quote_plus,
    "quote lower": lambda text: re.sub("%..", lambda one: one[0].lower(), quote(text, safe="")),
    "every byte": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    "json": lambda text: json.dumps(text)[1:-1],
    "json in utf-8": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "json in json": lambda text: json.dumps(json.dumps({"key": text}))[13:-4],
    "json with \\/": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
}


def scrub_of(*secrets: str) -> SecretFilter:
    scrub = SecretFilter()
    for secret in secrets:
        scrub.learn(secret)
    return scrub


def heard(scrub: SecretFilter, pieces: list[str]) -> str:
    """What is said when the text comes in pieces."""
    said: list[str] = []
    speaking = PiecewiseFilter(scrub, said.append)
    for piece in pieces:
        speaking.add(piece)
    speaking.close()
    return "".join(said)


def cut(text: str, places: list[int]) -> list[str]:
    ends = sorted({place % (len(text) + 1) for place in places} | {0, len(text)})
    return [text[begin:end] for begin, end in pairwise(ends)]


@given(SECRETS, st.sampled_from(sorted(WRITTEN)), st.lists(st.integers(0, 10_000), max_size=8))
def test_a_secret_is_found_however_it_is_written_and_cut_into_pieces(secret, how, places):
    written = WRITTEN[how](secret)
    scrub = scrub_of(secret)
    text = f"Before: {written} | behind"
    for clean in (scrub(text), heard(scrub, cut(text, places)), scrub({"deep": [text]})["deep"][0]):
        assert MARKER in clean and written not in clean.replace(MARKER, "\0")


@given(SECRETS, st.binary(max_size=20), st.binary(max_size=20), st.sampled_from([base64.b64encode,
base64.urlsafe_b64encode]),
       st.lists(st.integers(0, 10_000), max_size=8))  # fmt: skip
def test_a_secret_is_found_in_base64_wherever_it_stands_among_other_bytes(
    secret, before, behind, encode, places
):
    raw = secret.encode()
    text = encode(before + raw + behind).decode()
    core = text[-(-8 * len(before) // 6) : 8 * (len(before) + len(raw)) // 6]
    scrub = scrub_of(secret)
    for clean in (scrub(text), heard(scrub, cut(text, places))):
        assert MARKER in clean and core not in clean.replace(MARKER, "\0")


@settings(max_examples=30)
@given(st.text(max_size=100), SECRETS)
def test_what_holds_no_secret_is_the_very_same(text, secret):
    scrub = scrub_of(secret)
    value = {"text": [text, 1, None]}
    if not any(form.text in text for form in secret_encodings.forms(secret)):
        assert scrub(value) is value


def test_no_bit_of_a_secret_in_base64_stays_beside_the_marker():
    """`Authorization: Basic`, with each length of a name: what is left decodes to what was not
    secret.
    """
    for name in ("", "a", "ab", "abc", "abcd"):
        text = base64.b64encode(f"{name}:Wiesenschaumkraut".encode()).decode()
        clean = scrub_of("Wiesenschaumkraut")(f"Basic {text} sent")
        assert clean == f"Basic {text[: 8 * len(name + ':') // 6]}{MARKER} sent"


def test_the_longer_of_two_secrets_is_found_and_a_private_key_with_its_lines():
    assert (
        scrub_of("12345678", "12345678-90")("x 12345678-90 y 12345678") == f"x {MARKER} y {MARKER}"
    )
    pem = (
        "-----BEGIN KEY-----\n" + "\n".join("x/+" * 20 for _ in range(20)) + "\n-----END KEY-----\n"
    )
    scrub = scrub_of(pem)
    assert scrub(json.dumps({"a": pem})) == f'{{"a": "{MARKER}"}}'
    assert scrub(base64.b64encode(b"k=" + pem.encode()).decode()).count(MARKER) == 1


# In a run

SECRET = 'p@ss/w+rd "Wiesenschaumkraut" é'
BASIC = base64.b64encode(f"user:{SECRET}".encode()).decode()


def leaking_encoded(state: State, context: Context) -> Outcome:
    secret = context.credential("forge")
    forms = [write(secret) for write in WRITTEN.values()] + [BASIC]
    context.log(f"Authorization: Basic {BASIC}", tried=forms)
    memo = context.once("asked", lambda: {"got": forms})
    for form in forms:
        for piece in (form[:7], form[7:], " . "):
            context.stream(piece)
    return Go(update={"memo": memo, "forms": {form: form for form in forms}})


@pytest.mark.usefixtures("templates", "file_database")
@pytest.mark.django_db(transaction=True)
def test_state_log_events_and_results_hold_no_secret_in_another_writing(order_that):
    with keys(NEW):
        credentials.put("forge", SECRET)
        order = drive(order_that(leaking_encoded))
        assert order.status == "completed", Run.objects.get().error
        said = "".join(
            event.data["content"]
            for event in Event.objects.filter(kind="streaming_chunk").order_by("seq")
        )
        values: list[Any] = [
            state_at_head(order.thread_id),
            *(memo.value for memo in Memo.objects.all()),
        ]
        values += [event.data for event in Event.objects.all()]
    everything = [
        said,
        *(json.dumps(value, ensure_ascii=False) for value in values),
        *map(repr, values),
    ]
    core = BASIC[8:-4]
    for written in [*(write(SECRET) for write in WRITTEN.values()), core]:
        assert not [text for text in everything if written in text]
    assert said.count(MARKER) == len(WRITTEN) + 1
