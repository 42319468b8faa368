"""The script that asks, with people who answer at once."""

import datetime as dt
import os
from types import SimpleNamespace

import _clean_up as example
import pytest

from waystation_client import Answer, Denied

TODAY = dt.date(2026, 11, 20)


class People:
    """In the place of the client: they keep files for so many days, and approve or do not."""

    def __init__(self, days, *, approve=True):
        self.days, self.approve, self.asked = days, approve, []

    def ask(self, question, *, key, **rules):
        self.asked.append((question, key))

    def wait(self, question):
        return SimpleNamespace(data=self.days and {"days": self.days})

    def requires_approval(self, *, key, **rules):
        def guard(function):
            def guarded(*arguments):
                self.asked.append((arguments, key))
                if not self.approve:
                    raise Denied("delete", Answer("cancel", None, "", "ada", None, {}))
                return function(*arguments)

            return guarded

        return guard


@pytest.fixture
def folder(tmp_path):
    """Two old files and a new one."""
    for name, day in (("a", 1), ("b", 2), ("c", 19)):
        (tmp_path / name).touch()
        at = dt.datetime(2026, 11, day, tzinfo=dt.UTC).timestamp()
        os.utime(tmp_path / name, (at, at))
    return tmp_path


def left(folder):
    return sorted(file.name for file in folder.iterdir())


def test_what_is_old_is_deleted_once_somebody_agreed(folder):
    people = People(days=7)
    words = example.clean_up(people, str(folder), TODAY)
    assert (words, left(folder)) == ("Deleted all that is older than 2026-11-13.", ["c"])
    assert people.asked[1] == ((str(folder), "2026-11-13"), "delete 2026-11-20")


@pytest.mark.parametrize("people", [People(7, approve=False), People(None)])
def test_nothing_is_deleted_without_a_yes(folder, people):
    assert "othing was deleted" in example.clean_up(people, str(folder), TODAY)
    assert left(folder) == ["a", "b", "c"]


def test_killed_in_the_middle_it_goes_on_under_the_same_questions(folder, monkeypatch):
    """It dies after the first file, and is started again."""
    unlink = example.Path.unlink

    def die(file):
        unlink(file)
        raise KeyboardInterrupt

    first, again = People(7), People(7)
    with monkeypatch.context() as dying:
        dying.setattr(example.Path, "unlink", die)
        with pytest.raises(KeyboardInterrupt):
            example.clean_up(first, str(folder), TODAY)
    assert left(folder) == ["b", "c"]
    example.clean_up(again, str(folder), TODAY)
    assert left(folder) == ["c"]
    assert again.asked == first.asked
