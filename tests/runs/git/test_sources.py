import os
import shutil
from contextlib import suppress
from subprocess import TimeoutExpired

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.git.sources import BadSource, check_source
from tests.worlds.repositories import bare_copy, git, make_repository

SCHEMES = ["https", "ssh"]
HOSTS = ["github.com", "*.example.org", "10.0.0.5", "git.local"]


@pytest.fixture
def allowed(tmp_path):
    folder = tmp_path / "allowed"
    make_repository(folder / "repo", {"a.py": ""})
    make_repository(tmp_path / "secret" / "repo", {"a.py": ""})
    return folder


def check(url, folders=()):
    return check_source(str(url), folders=folders, schemes=SCHEMES, hosts=HOSTS)


def code(url, folders=()):
    with pytest.raises(BadSource) as refusal:
        check(url, folders)
    return refusal.value.code


def test_a_local_repository_in_an_allowed_folder_may_be_used(allowed):
    assert check(allowed / "repo", [allowed]) == str(allowed / "repo")
    assert check(f" {allowed}/x/../repo/ ", [allowed]) == str(allowed / "repo")
    assert check(f"file://{allowed}/repo", [allowed]) == str(allowed / "repo")
    assert check(bare_copy(allowed / "repo", allowed / "bare.git"), [allowed]) == str(
        allowed / "bare.git"
    )


def test_links_are_followed_before_the_folder_is_judged(allowed, tmp_path):
    (allowed / "link").symlink_to(tmp_path / "secret" / "repo")
    (tmp_path / "door").symlink_to(allowed)
    assert code(allowed / "link", [allowed]) == "outside_allowed_folders"
    assert check(tmp_path / "door" / "repo", [tmp_path / "door"]) == str(allowed / "repo")


def test_nothing_is_told_about_paths_outside(allowed, tmp_path):
    answers = set()
    for path in (
        tmp_path / "secret" / "repo",
        tmp_path / "secret" / "none",
        "/etc/shadow",
        "/nothing/here",
    ):
        with pytest.raises(BadSource) as refusal:
            check(path, [allowed])
        answers.add((refusal.value.code, str(refusal.value).replace(str(path), "PATH")))
    assert len(answers) == 1
    assert code(allowed.parent / "allowed2", [allowed]) == "outside_allowed_folders"


def test_only_the_repository_itself_counts(allowed):
    (allowed / "repo" / "sub").mkdir()
    (allowed / "plain").mkdir()
    (allowed / "file").write_text("")
    for name in ("repo/sub", "plain", "file", "none"):
        assert code(allowed / name, [allowed]) == "not_a_repository"


def test_name_longer_than_the_file_system_takes_is_no_repository(allowed):
    assert code(allowed / ("a" * 300), [allowed]) == "not_a_repository"


@pytest.mark.parametrize("error", [PermissionError(13, "no"), TimeoutExpired("git", 30)])
def test_a_folder_that_git_cannot_look_into_in_time_is_no_repository(allowed, monkeypatch, error):
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("runs.git.sources.subprocess.run", fails)
    assert code(allowed / "repo", [allowed]) == "not_a_repository"


def test_a_worktree_or_alternates_do_not_lead_outside(allowed, tmp_path):
    git(tmp_path / "secret" / "repo", "worktree", "add", "-q", str(allowed / "tree"))
    assert code(allowed / "tree", [allowed]) == "outside_allowed_folders"
    (allowed / "repo" / ".git" / "objects" / "info" / "alternates").write_text(
        f"{tmp_path}/secret/repo/.git/objects\n"
    )
    assert code(allowed / "repo", [allowed]) == "outside_allowed_folders"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a repository to somebody else")
def test_a_repository_of_another_user_may_be_used(allowed):
    shutil.chown(allowed / "repo", "nobody")
    shutil.chown(allowed / "repo" / ".git", "nobody")
    assert check(allowed / "repo", [allowed]) == str(allowed / "repo")


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("https://github.com/a/b.git", "https://github.com/a/b.git"),
        ("HTTPS://GitHub.com:443/a/b", "https://github.com:443/a/b"),
        ("https://git.example.org./a", "https://git.example.org/a"),
        ("ssh://git@github.com/a/b", "ssh://git@github.com/a/b"),
        ("git@github.com:a/b.git", "git@github.com:a/b.git"),
        ("https://10.0.0.5/a", "https://10.0.0.5/a"),
        ("https://git.local/a", "https://git.local/a"),
    ],
)
def test_an_allowed_remote_is_given_in_one_spelling(url, normal):
    assert check(url) == normal


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("", "empty_source"),
        ("x" * 3000, "too_long"),
        ("https://github.com/a\nb", "control_characters"),
        ("/a\x00b", "control_characters"),
        ("/a\u202eb", "control_characters"),
        ("--upload-pack=evil", "leading_dash"),
        ("repo", "relative_path"),
        ("~/repo", "relative_path"),
        ("ext::sh -c evil", "scheme_not_allowed"),
        ("http://github.com/a", "scheme_not_allowed"),
        ("git://github.com/a", "scheme_not_allowed"),
        ("ftp://github.com/a", "scheme_not_allowed"),
        ("https://ada:secret@github.com/a", "credentials_in_url"),
        ("https://token@github.com/a", "credentials_in_url"),
        ("ssh://git:pw@github.com/a", "credentials_in_url"),
        ("https://evil.com/a", "host_not_allowed"),
        ("https://example.org/a", "host_not_allowed"),
        ("https://xexample.org/a", "host_not_allowed"),
        ("https://github.com.evil.com/a", "host_not_allowed"),
        ("https://10.0.0.6/a", "host_not_allowed"),
        ("https://[::1]/a", "host_not_allowed"),
        ("https://-oProxy/a", "host_not_allowed"),
        ("ssh://-oProxyCommand=x/a", "host_not_allowed"),
        ("ssh://-x@github.com/a", "bad_url"),
        ("git@github.com:-x", "bad_url"),
        ("git@evil.com:a", "host_not_allowed"),
        ("https://github.com/a?token=1", "bad_url"),
        ("https://github.com/a b", "bad_url"),
        ("https://github.com/a/../b", "bad_url"),
        ("https://github.com", "bad_url"),
        ("https://github.com:99999/a", "bad_url"),
        ("https://[github.com/a", "bad_url"),
        ("file://host/etc", "bad_url"),
        ("file:///etc%00", "control_characters"),
        ("file:///etc", "outside_allowed_folders"),
    ],
)
def test_each_refusal_has_its_code(url, expected):
    assert code(url) == expected


@pytest.mark.parametrize(
    "host",
    [
        "127.1",
        "0x7f000001",
        "2130706433",
        "192.168.0.1",
        "localhost",
        "db",
        "x.internal",
        "a.local",
    ],
)
def test_a_wildcard_does_not_admit_private_names_and_addresses(host):
    with pytest.raises(BadSource) as refusal:
        check_source(f"https://{host}/a", folders=[], schemes=SCHEMES, hosts=["*"])
    assert refusal.value.code == "host_not_allowed"
    assert (
        check_source("https://codeberg.org/a", folders=[], schemes=SCHEMES, hosts=["*"])
        == "https://codeberg.org/a"
    )


@given(st.one_of(st.text(), st.from_regex(r"(https|ssh|file|ext)?(://|::|:)[@:/.%a-z0-9\-\[\]]*")))
def test_nonsense_is_refused_by_name(url):
    with suppress(BadSource):
        assert check(url).isprintable()
