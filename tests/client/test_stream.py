"""A stream's bytes become events, however they are cut into pieces."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waystation_client.stream import Reader

LINES = ("\n", "\r\n", "\r")


def frame(seq, line="\n", text="x"):
    data = json.dumps({"event": "log", "seq": seq, "data": {"message": text}}, ensure_ascii=False)
    return f"id: {seq}{line}event: log{line}data: {data}{line}{line}"


def read(reader, raw, size):
    return [event for at in range(0, len(raw), size) for event in reader.feed(raw[at : at + size])]


@given(st.integers(1, 40), st.sampled_from(LINES), st.text(max_size=20))
def test_pieces_of_any_size_give_each_event_once(size, line, text):
    """A text may hold what Unicode calls a line end; JSON escapes those of ASCII."""
    told = "".join(frame(seq, line, text) for seq in (1, 2, 2, 1, 3))
    raw = f"retry: 2000{line}{line}: still here{line}{line}{told}x".encode(errors="replace")
    reader = Reader()
    events = read(reader, raw, size)
    assert [event["seq"] for event in events] == [1, 2, 3]
    assert reader.seq == 3


def test_half_a_frame_is_forgotten_when_the_connection_is_cut():
    reader = Reader()
    first, second = frame(1).encode(), frame(2).encode()
    assert len(read(reader, first + second[:-8], 7)) == 1
    reader.connected()
    assert [event["seq"] for event in read(reader, second, 5)] == [2]


@pytest.mark.parametrize(
    ("raw", "seq"),
    [
        ("event: error\ndata: {}\n\n", 4),
        ("event: recovered\ndata: {}\n\n", 4),
        ("id: 9\n\n", 9),
        ("id: 3\ndata: {}\n\n", 4),
        ("id: nine\ndata: {}\n\n", 4),
    ],
)
def test_what_is_no_event_moves_the_place_at_most(raw, seq):
    """An outage has no number; a frame of a number alone passes over what a filter left out."""
    reader = Reader(4)
    assert list(reader.feed(raw.encode())) == []
    assert reader.seq == seq
