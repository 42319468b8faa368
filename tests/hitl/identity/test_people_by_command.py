"""`manage.py person` and `manage.py group`: nobody needs a shell for two reviewers."""

from __future__ import annotations

from io import StringIO

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]


def run(*words: str) -> str:
    out = StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


def may_log_in(name: str, password: str) -> bool:
    user = User.objects.get(username=name)
    return user.is_active and user.check_password(password)


def test_two_reviewers_are_made_by_three_commands():
    assert "Made the group finance." in run("group", "finance")
    said = run("person", "ana", "--group", "finance", "--mail", "ana@example.org")
    run("person", "ben", "--group", "finance")
    assert said.startswith("Made ana: finance.")
    assert may_log_in("ana", said.split()[-1])
    assert User.objects.get(username="ana").email == "ana@example.org"
    assert "People: ana, ben" in run("group", "finance")


def test_somebody_is_changed_and_keeps_their_password():
    password = run("person", "ana").split()[-1]
    run("group", "finance", "--right", "runs.add_schedule")
    said = run("person", "ana", "--group", "finance", "--off")
    assert said == "Changed ana: finance, switched off.\n"
    assert not may_log_in("ana", password)
    assert run("person", "ana", "--on") == "Changed ana: finance.\n"
    assert may_log_in("ana", password)
    assert User.objects.get(username="ana").has_perm("runs.add_schedule")


def test_a_password_is_read_from_the_input_and_never_from_the_command_line(monkeypatch):
    monkeypatch.setattr("sys.stdin", StringIO("a long and odd one\n"))
    said = run("person", "ana", "--password")
    assert "odd" not in said and "Password" not in said
    assert may_log_in("ana", "a long and odd one")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("person", "ana", "--group", "finanse"), "Did you mean finance?"),
        (("person", "ana", "--mail", "nowhere"), "valid email"),
        (("person", "a n/a"), "valid username"),
        (("person", "ana", "--password"), "too short"),
        (("group", "finance", "--right", "runs.ad_schedule"), "Did you mean runs.add_schedule?"),
        (("group", "x" * 151), "150 characters"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_done(words, message, monkeypatch):
    monkeypatch.setattr("sys.stdin", StringIO("short\n"))
    Group.objects.create(name="finance")
    with pytest.raises(CommandError, match=message) as refused:
        run(*words)
    assert "Nothing was done." in str(refused.value)
    assert not User.objects.filter(username__in=["ana", "a n/a"]).exists()
    assert not Group.objects.get(name="finance").permissions.exists()
