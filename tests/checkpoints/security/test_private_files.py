"""What an earlier version left open to other users of the machine is closed, once, and nothing
beside it is touched.
"""

from __future__ import annotations

import os

import pytest
from django.core.exceptions import ImproperlyConfigured

from checkpoints.security import private_files
from runs import env


def modes(*paths):
    return [f"{path.stat().st_mode & 0o777:o}" for path in paths]


def test_an_open_folder_is_closed_with_all_that_is_in_it(tmp_path, caplog):
    """Before, a data folder was 0755 and stayed so, with the database and mails in it."""
    data, outside = tmp_path / "data", tmp_path / "outside"
    (data / "mail").mkdir(parents=True)
    mail, program = data / "mail" / "1.log", data / "run.sh"
    for path in (mail, program, outside):
        path.write_text("x")
    (data / "link").symlink_to(outside)
    for path, mode in (
        (data, 0o755),
        (data / "mail", 0o755),
        (mail, 0o644),
        (program, 0o755),
        (outside, 0o644),
    ):
        path.chmod(mode)
    assert private_files.tighten([data, tmp_path / "gone"], umask=0o077) == 4
    assert modes(data, data / "mail", mail, program, outside) == ["700", "700", "600", "700", "644"]
    assert caplog.text.count("could be read by other users") == 1
    # what is closed is not looked through again
    assert private_files.tighten([data], umask=0o077) == 0


def test_what_belongs_to_somebody_else_is_said_and_stays(tmp_path, caplog, monkeypatch):
    tmp_path.chmod(0o755)

    def refuse(*_, **__):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chmod", refuse)
    assert private_files.tighten([tmp_path], umask=0o077) == 0
    assert f"could not be closed: {tmp_path}: Operation not permitted" in caplog.text


@pytest.mark.parametrize(
    ("given", "read"), [("", 0o077), ("027", 0o027), ("0027", 0o027), ("000", 0)]
)
def test_the_umask_is_octal(monkeypatch, given, read):
    monkeypatch.setenv("X", given)
    assert env.umask("X", "077") == read


@pytest.mark.parametrize("given", ["77", "0o77", "700", "078", "-1"])
def test_another_one_stops_the_start(monkeypatch, given):
    monkeypatch.setenv("X", given)
    with pytest.raises(ImproperlyConfigured, match="X="):
        env.umask("X", "077")
