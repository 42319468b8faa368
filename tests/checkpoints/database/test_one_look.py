"""What is asked once while somebody only looks."""

from __future__ import annotations

from contextlib import suppress

from checkpoints.database import one_look


def asked_in(*, when: bool) -> list[int]:
    """What two questions of one key were given."""
    answers = iter((1, 2))
    with one_look.only(when=when):
        return [one_look.once("who", lambda: next(answers)) for _ in range(2)]


def test_one_look_asks_once_and_anything_else_each_time():
    assert (asked_in(when=True), asked_in(when=False)) == ([1, 1], [1, 2])


def test_what_one_look_found_is_not_there_for_the_next_or_for_what_acts_within_it():
    with one_look.only(when=True):
        one_look.keep("who", 1)
        with one_look.only(when=False):
            one_look.keep("who", 2)
            assert one_look.kept("who") is None
        assert one_look.kept("who") == 1
    with suppress(ValueError), one_look.only(when=True):
        one_look.keep("who", 3)
        raise ValueError
    assert one_look.kept("who") is None
