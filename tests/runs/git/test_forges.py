"""Pull requests at a forge over real HTTP: never two, the forge's wishes heeded, and nothing of the
token where it does not belong.
"""

from dataclasses import replace

import pytest

from runs.git.forges.places import BadForge, ForgeRepository, checked_url, project_of
from runs.git.forges.proposing import propose
from runs.workflows.base import PullRequestDraft, StepFailed
from tests.servers.forge import LOST, PROJECT, SLOW, TOKEN, serving

pytestmark = pytest.mark.one_database
WANTED = PullRequestDraft(branch="waystation/wo_1", base="", title="Tidy", body="What was asked")
LOST_ONE = PullRequestDraft(branch="lost", base="main", title="Lost", body="")


@pytest.fixture
def forge(tmp_path):
    with serving(tmp_path) as forge:
        yield forge


@pytest.fixture(params=["github", "gitlab"])
def place(request, forge):
    return ForgeRepository(
        kind=request.param, url=forge.url, project=PROJECT, token=TOKEN, seconds=5
    )


def failure(place, wanted=WANTED):
    with pytest.raises(StepFailed) as failed:
        propose(place, wanted)
    assert TOKEN not in str(failed.value)
    assert "commits are kept" in str(failed.value)
    return failed.value


def test_it_is_opened_once_and_then_brought_up_to_date(place, forge):
    first = propose(place, WANTED)
    again = propose(place, WANTED)
    later = propose(place, replace(WANTED, title="Tidy up", body="More"))
    assert (first.opened, again.opened, later.opened) == (True, False, False)
    assert first.url == again.url == later.url != ""
    (pull,) = forge.pulls
    assert (pull["base"], pull["title"], pull["body"]) == ("main", "Tidy up", "More")
    # what is as it should be is left alone
    assert sum(one.startswith(("PATCH", "PUT")) for one in forge.seen) == 1


def test_it_leads_to_the_base_branch_and_may_be_a_draft(place, forge):
    wanted = PullRequestDraft(branch="b", base="stable", title="Tidy", body="", draft=True)
    propose(place, wanted)
    (pull,) = forge.pulls
    assert pull["base"] == "stable"
    assert pull["draft"] or pull["title"] == "Draft: Tidy"
    if place.kind == "gitlab":  # ready or not is for people to say from then on
        propose(place, replace(wanted, body="x"))
        assert pull["title"] == "Draft: Tidy"


def test_an_answer_that_was_lost_does_not_open_a_second_one(place, forge):
    forge.fail(LOST, only="GET")
    assert failure(place).code == "forge_away"
    forge.fail(200, body=[], only="GET")
    forge.fail(LOST, only="POST")
    assert failure(place, LOST_ONE).code == "forge_away"
    assert propose(place, LOST_ONE).opened is False
    assert [pull["branch"] for pull in forge.pulls] == ["lost"]


def test_who_is_refused_since_there_is_one_takes_that_one(place, forge):
    """Two tries at once: neither sees one, both ask for one."""
    propose(place, WANTED)
    forge.fail(200, body=[], only="GET")
    told = propose(place, replace(WANTED, base="main", title="Second", body=""))
    assert told.opened is False
    assert [pull["title"] for pull in forge.pulls] == ["Second"]


@pytest.mark.parametrize(
    ("status", "headers", "code", "after"),
    [
        (500, {}, "forge_away", 0),
        (503, {"Retry-After": "7"}, "forge_away", 7),
        (429, {"Retry-After": "42"}, "forge_limit", 42),
        (429, {}, "forge_limit", 60),
        (403, {"Retry-After": "9"}, "forge_limit", 9),
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1"}, "forge_limit", 1),
        (403, {}, "forge_refused", 0),
        (404, {}, "forge_refused", 0),
        (422, {}, "forge_refused", 0),
    ],
)
def test_each_failure_has_a_code_and_the_forges_wish(place, forge, status, headers, code, after):
    forge.fail(status, headers=headers)
    failed = failure(place)
    assert (failed.code, failed.after) == (code, after)
    assert f"Failed with {status}" in str(failed)
    # it is not for the client to wait and try again
    assert forge.pulls == [] and len(forge.seen) == 1


def test_a_forge_that_does_not_answer_or_is_not_there_is_away(place, forge):
    forge.fail(SLOW)
    assert failure(replace(place, seconds=1)).code == "forge_away"
    assert failure(replace(place, url="http://127.0.0.1:9")).code == "forge_away"


def test_a_wrong_token_is_refused_and_an_echoed_one_not_repeated(place, forge):
    assert failure(replace(place, token="wrong-token")).code == "forge_refused"
    forge.fail(400, body={"message": f"You sent {TOKEN}"})
    assert "You sent …" in str(failure(place))


@pytest.mark.parametrize(
    "body", [{"message": "ok"}, [1], ["x"], "text", [{"html_url": 7}], {"head": None}]
)
def test_an_answer_of_another_kind_is_a_clear_failure(place, forge, body):
    forge.fail(200, times=4, body=body)
    assert failure(place).code in {"forge_away", "forge_refused"}
    assert forge.pulls == []


def test_a_link_that_a_browser_must_not_open_is_not_taken(place, forge):
    forge.fail(200, body=[], only="GET")
    made = {
        "html_url": "javascript:alert(1)",
        "web_url": "javascript:alert(1)",
        "number": 1,
        "iid": 1,
        "title": "",
        "body": "",
        "url": "x",
    }
    forge.fail(201, body=made, only="POST")
    assert failure(place, LOST_ONE).code == "forge_away"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_no_forge_sends_the_token_on_to_another_host(place, forge, tmp_path, status):
    with serving(tmp_path) as other:
        forge.fail(
            status,
            times=3,
            headers={
                "Location": other.url.replace("127.0.0.1", "localhost") + "/api/v4/projects/x"
            },
        )
        assert failure(place).code in {"forge_refused", "forge_away"}
        assert other.seen == []


def test_the_token_is_in_no_repr(place):
    assert TOKEN not in repr(place)


ALLOWED = ["https://api.github.com", "https://git.example.org:8443", "http://10.0.0.5:3000"]


@pytest.mark.parametrize(
    ("kind", "url", "expected"),
    [
        ("github", "", "https://api.github.com"),
        ("github", "https://api.github.com/", "https://api.github.com"),
        ("github", "https://API.github.com:443", "https://api.github.com"),
        ("github", "https://git.example.org:8443/api/v3/", "https://git.example.org:8443/api/v3"),
        ("gitlab", "http://10.0.0.5:3000", "http://10.0.0.5:3000"),
    ],
)
def test_an_allowed_origin_is_normalised(kind, url, expected):
    assert checked_url(kind, url, allowed=ALLOWED) == expected


@pytest.mark.parametrize(
    "url",
    [
        "https://git.example.org", "http://git.example.org:8443", "https://10.0.0.5:3000",
        "https://127.0.0.1", "https://169.254.169.254/",
        "https://api.github.com.evil.example", "https://api.github.com@evil.example",
        "https://evil.example#api.github.com", "ftp://x/y",
        "https://api.github.com/../x", "https://api.github.com/?x=1", "file:///etc/passwd",
        "https://", "//api.github.com", "https://api.github.com:x",
        "https://api.github.com/a b", "https://api.github.com\\@evil",
        "https://user:secret@api.github.com", "https://аpi.github.com",
    ],
)  # fmt: skip
def test_any_other_is_refused(url):
    with pytest.raises(BadForge):
        checked_url("github", url, allowed=ALLOWED)


@pytest.mark.parametrize(
    ("url", "kind", "forge_url", "expected"),
    [
        ("https://github.com/ada/engine.git", "github", "https://api.github.com", "ada/engine"),
        ("https://github.com/ada/engine/", "github", "https://api.github.com", "ada/engine"),
        ("git@github.com:ada/engine.git", "github", "https://api.github.com", "ada/engine"),
        (
            "ssh://git@gitlab.com/group/sub/engine.git",
            "gitlab",
            "https://gitlab.com",
            "group/sub/engine",
        ),
        (
            "https://example.org/git/ada/engine.git",
            "gitlab",
            "https://example.org/git",
            "ada/engine",
        ),
    ],
)
def test_the_project_is_in_the_repositorys_url(url, kind, forge_url, expected):
    assert project_of(url, kind=kind, forge_url=forge_url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "/srv/git/engine",
        "https://github.com/engine",
        "https://github.com/a/b/c",
        "https://github.com/a/../b",
    ],
)
def test_a_url_without_a_project_says_so(url):
    with pytest.raises(BadForge):
        project_of(url, kind="github", forge_url="https://api.github.com")
