"""Shown ids: what people and programs see instead of keys."""

from __future__ import annotations

import uuid

import pytest
from django.urls import Resolver404, resolve
from hypothesis import given
from hypothesis import strategies as st

from checkpoints import ids


@given(st.uuids())
def test_an_id_comes_back_as_its_key(key):
    """C12."""
    assert ids.parse("wo", ids.show("wo", key)) == key


@given(st.uuids(), st.uuids())
def test_ids_sort_as_their_keys_do(one, other):
    """C12."""
    assert (ids.show("run", one) < ids.show("run", other)) == (one < other)


def test_new_ids_sort_by_the_time_they_were_made():
    made = [ids.new() for _ in range(200)]
    shown = [ids.show("ckpt", key) for key in made]
    assert shown == sorted(shown)
    assert len(set(shown)) == 200


@given(st.text())
def test_other_text_is_refused(text):
    with pytest.raises(ValueError, match="is no wo_ id"):
        ids.parse("wo", text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "wo_",
        "wo_" + "0" * 25,
        "wo_" + "0" * 27,
        "run_" + "0" * 26,
        "WO_" + "0" * 26,
        "wo_" + "A" * 26,
        "wo_" + "i" * 26,  # i, l, o and u are not in Crockford's alphabet
        "wo_" + "z" * 26,  # 130 bits
        "wo_" + "8" + "0" * 25,  # 2 ** 128
        "wo_" + "٣" * 26,
        "wo-" + "0" * 26,
    ],
)
def test_what_only_looks_like_an_id_is_refused(text):
    with pytest.raises(ValueError, match="is no wo_ id"):
        ids.parse("wo", text)


def test_the_largest_key_has_an_id():
    largest = uuid.UUID(int=2**128 - 1)
    assert ids.show("wo", largest) == "wo_7" + "z" * 25
    assert ids.parse("wo", "wo_7" + "z" * 25) == largest


@pytest.mark.parametrize(
    "shown", ["wo_" + "z" * 26, "wo_" + "0" * 25, "wo_" + "O" * 26, "run_" + "0" * 26, "1", "%00"]
)
def test_an_address_with_a_wrong_id_is_no_address(shown):
    with pytest.raises(Resolver404):
        resolve(f"/work-orders/{shown}/")
