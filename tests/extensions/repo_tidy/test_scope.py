import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extensions.repo_tidy.requests import apply_feedback, read_request
from extensions.repo_tidy.scope import TidyScope, clean_path, covers, first_scope, selects, within
from runs.workflows.base import StepFailed

KNOWN = [
    "F401",
    "F841",
    "I001",
    "UP006",
    "UP007",
    "E711",
    "E712",
    "SIM101",
    "ERA001",
    "A001",
    "B006",
]
FILES = ["src/a.py", "src/x/tests/t.py", "tests/t.py", "docs/conf.py", "lib/l.py", "my file.py"]


def exists(pattern):
    return any(within(path, pattern) for path in FILES)


def after(*texts: str, **order) -> tuple[TidyScope, list[str], list[str]]:
    scope = first_scope({"rules": "F, I, UP, E7", **order})
    applied: list[str] = []
    not_understood: list[str] = []
    for text in texts:
        scope, applied, not_understood = apply_feedback(
            scope, text, known_codes=KNOWN, exists=exists
        )
    return scope, applied, not_understood


def left(*texts: str, **order) -> set[str]:
    scope = after(*texts, **order)[0]
    return {f"{code} {path}" for code in KNOWN for path in FILES if covers(scope, code, path)}


def pairs(codes: str, paths: str = " ".join(FILES[:5]) + "|my file.py") -> set[str]:
    first, _, last = paths.partition("|")
    return {
        f"{code} {path}"
        for code in codes.split()
        for path in [*first.split(), *([last] if last else [])]
    }


ALL = pairs("F401 F841 I001 UP006 UP007 E711 E712")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("skip UP007", ALL - pairs("UP007")),
        ("without E711 and E712", ALL - pairs("E711 E712")),
        ("no F401", ALL - pairs("F401")),
        ("skip up007.", ALL - pairs("UP007")),
        ("not in tests/", {pair for pair in ALL if "tests/" not in pair}),
        ("except docs/conf.py", {pair for pair in ALL if "docs" not in pair}),
        ("only F401 in src/", pairs("F401", "src/a.py src/x/tests/t.py")),
        ("only src/", {pair for pair in ALL if " src/" in pair}),
        ("also SIM", ALL | pairs("SIM101")),
        ("add B in lib/", ALL | pairs("B006", "lib/l.py")),
        ("skip F401 in tests/", ALL - pairs("F401", "tests/t.py src/x/tests/t.py")),
        (
            "skip F401, tests/",
            {pair for pair in ALL if "tests/" not in pair and "F401" not in pair},
        ),
        ("skip:\n- F401\n- UP007", ALL - pairs("F401 UP007")),
        ("skip F401 in lib/, E711 in docs/", ALL - {"F401 lib/l.py", "E711 docs/conf.py"}),
        ("don't skip F401", ALL),
        ("please do not touch tests", {pair for pair in ALL if "tests/" not in pair}),
        ("skip F401. Fix SIM101", ALL - pairs("F401") | pairs("SIM101")),
        ("no UP but only src/a.py", pairs("F401 F841 I001 E711 E712", "src/a.py")),
        ('skip "my file.py"', {pair for pair in ALL if "my file" not in pair}),
        ("not in **/t.py", {pair for pair in ALL if "t.py" not in pair}),
        ("I would like only F401", pairs("F401")),
    ],
)
def test_words_mean_what_a_reviewer_means(text, expected):
    _, applied, not_understood = after(text)
    assert left(text) == expected
    assert applied
    assert not_understood == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("make it nice", "make it nice"),
        ("skip XYZ9", "XYZ9 (no rule that ruff knows)"),
        ("not in nope/", "nope/ (not in the repository)"),
        ("skip ../../etc/passwd", "../../etc/passwd (not a path inside the repository)"),
        ("F401", "F401"),
        ("only safe ones", "safe ones"),
    ],
)
def test_what_is_not_understood_is_said_and_changes_nothing(text, said):
    assert after(text)[2] == [said]
    assert left(text) == ALL


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Add security", "security (if you mean the files there, write security/)"),
        ("only security fixes", "security (if you mean the files there, write security/)"),
        ("do not break tests", "tests break"),
        ("add auth", "auth"),
    ],
)
def test_a_word_that_is_also_a_folder_is_no_wish_about_that_folder(text, said):
    """Before: "Add security" was told as applied: added `**/security`."""

    def here(pattern):
        return exists(pattern) or within("src/security/keys.py", pattern)

    assert apply_feedback(first_scope({}), text, known_codes=KNOWN, exists=here)[1:] == ([], [said])
    told = apply_feedback(
        first_scope({}), "skip security, only in tests", known_codes=KNOWN, exists=here
    )[1]
    assert told == ["left out `**/security`", "only `tests`"]


@pytest.mark.parametrize(
    ("request_", "applied", "not_understood"),
    [
        ("Fix F401 in src/", ["only F401", "only `src`"], []),
        ("Please tidy src/", ["only `src`"], []),
        (
            "Tidy up the repository",
            ["tidy, by the rules and in the places that the order names"],
            [],
        ),
        (
            "Clean up and add auth",
            ["tidy, by the rules and in the places that the order names"],
            ["auth"],
        ),
        ("skip UP", ["left out UP"], []),
    ],
)
def test_the_words_of_an_order_are_read_too(request_, applied, not_understood):
    """Before: they were not looked at."""
    read = read_request(first_scope({}), request_, known_codes=KNOWN, exists=exists)
    assert read is not None and read[1:] == (applied, not_understood)


@pytest.mark.parametrize(
    "request_", ["Add auth", "I want a login page", "make it faster", "add tests", "…", "F401"]
)
def test_an_order_of_which_nothing_is_understood_is_no_order_to_lint(request_):
    assert read_request(first_scope({}), request_, known_codes=KNOWN, exists=exists) is None


def test_feedback_adds_up_over_revisions():
    assert left("skip UP", "not in tests/", "only F") == {
        pair for pair in pairs("F401 F841") if "tests/" not in pair
    }


def test_a_place_that_was_left_out_stays_out_under_a_wider_only():
    assert left("not in src/x", "only src/") == {pair for pair in ALL if " src/a.py" in pair}


def test_an_only_that_names_what_was_left_out_takes_it_in():
    assert left("not in tests/", "only tests/ ") == {pair for pair in ALL if " tests/" in pair}


def test_include_again_undoes_a_skip():
    assert left("not in tests/", "include tests/ again") == {
        pair for pair in ALL if "x/tests" not in pair
    } | pairs("F401 F841 I001 UP006 UP007 E711 E712", "src/x/tests/t.py") - {
        pair for pair in ALL if "src/x/tests" in pair
    }


def test_selectors_are_read_as_ruff_reads_them():
    assert selects("E", "E711")
    assert not selects("E", "ERA001")
    assert selects("E7", "E711")
    assert selects("PL", "PLC0414")
    assert not selects("S", "SIM101")
    assert selects("ALL", "X1")


@pytest.mark.parametrize(
    "path",
    ["/etc", "../x", "a/../../b", "-rf", "~root", "a\x00b", ".git/hooks", "x" * 500, "*a*a*a*a*a"],
)
def test_a_path_that_leaves_the_repository_fails_the_order(path):
    with pytest.raises(StepFailed) as failure:
        first_scope({"paths": [path]})
    assert failure.value.code == "bad_path"


@pytest.mark.parametrize("rules", ["--fix", "F401;rm", "TOOLONG1", "F12345", "É"])
def test_a_rule_that_is_none_fails_the_order(rules):
    with pytest.raises(StepFailed) as failure:
        first_scope({"rules": [rules]})
    assert failure.value.code == "bad_rule"


def test_order_text_is_read_with_commas_spaces_and_quotes():
    scope = first_scope({"rules": "f, i  UP,E7", "paths": 'src/, ./lib "my file.py"'})
    assert scope["select"] == ["E7", "F", "I", "UP"]
    assert scope["paths"] == ["lib", "my file.py", "src"]
    assert (
        first_scope({})["select"] == first_scope({"rules": ""})["select"] == ["E7", "F", "I", "UP"]
    )


def test_globs_stay_within_folders_unless_doubled():
    assert within("src/a.py", "src/*.py")
    assert not within("src/x/a.py", "src/*.py")
    assert within("src/x/a.py", "src/**/a.py")
    assert within("src/a.py", "src/**/a.py")
    assert within("we[ir]d/a.py", "we[ir]d")
    assert not within("srcx/a.py", "src")


WORDS = st.sampled_from(
    re.findall(
        r"[^ ]+",
        "skip only add not no without also include again and but in , ; . F401 f401 UP up E7 I "
        "XYZ9 tests/ src docs/conf.py lib/ *.py ../x"
        " nope/ never except don't the \n - ``` \" ' 🦀 all ALL",
    )
)
TEXTS = st.one_of(st.lists(WORDS, max_size=12).map(" ".join), st.text(max_size=60))


@given(TEXTS, TEXTS)
def test_nothing_a_person_types_breaks_the_reader(first, second):
    scope, applied, not_understood = after(first, second)
    json.dumps([scope, applied, not_understood]).encode()
    for path in FILES:
        covers(scope, "F401", path)


@given(TEXTS)
def test_said_twice_is_said_once(text):
    once = after(text)[0]
    assert after(text, text)[0] == once


@given(
    TEXTS,
    st.sampled_from(["skip F401", "not in tests/", "skip UP in src/"]),
    st.sampled_from(["only F", "only src/", "no I", "hm", "only E7 in docs/"]),
)
def test_what_was_left_out_stays_out_without_a_wish_to_take_it_in(before, skip, later):
    without = left(before, skip)
    out = {pair for pair in left(before) if pair not in without}
    assert not out & left(before, skip, later)


@given(st.text(max_size=40))
def test_clean_path_gives_a_path_inside_or_refuses(path):
    try:
        clean = clean_path(path)
    except StepFailed:
        return
    assert not clean.startswith(("/", "-"))
    assert ".." not in clean.split("/")
