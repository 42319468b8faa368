"""What somebody meets in the first hour: commands where nothing is set up, the README's lines,
mails to read.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from hitl.rendering import markdown
from tests.programs.begun import Begun

ROOT = Path(__file__).parents[3]
PAGES = [
    "README.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")),
]
COMMAND = re.compile(
    r"(make|curl|git|celery|daphne|uvicorn|export|\.venv\S+|manage\.py|[A-Z_]+=\S*)\b"
)


def manage(*words, **environment):
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in {"DATABASE_URL", "REDIS_URL", "WAYSTATION_DATA"}
    }
    return Begun("manage.py", *words, environment={**kept, **environment}).ended()


@pytest.mark.one_database
@pytest.mark.parametrize(
    "words",
    [("changepassword", "reviewer"), ("invariants",)],
    ids=lambda words: words[0],
)
def test_a_command_where_no_waystation_is_says_so_in_one_sentence_and_leaves_nothing(
    tmp_path, words
):
    done = manage(*words, WAYSTATION_DATA=str(tmp_path / "nowhere"))
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith(
        f"There is no Waystation in {tmp_path / 'nowhere'} yet. Start it once"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.one_database
def test_a_folder_that_cannot_be_and_tables_that_are_not_there_are_said_in_one_sentence(tmp_path):
    """A traceback each; as root nothing is read-only, so a file stands in the way."""
    (tmp_path / "file").touch()
    for words in (("standalone",), ("migrate",)):
        done = manage(*words, WAYSTATION_DATA=str(tmp_path / "file" / "data"))
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert "cannot be used (Not a directory)" in done.stderr and "make up DATA=" in done.stderr
    (tmp_path / "there").mkdir()
    done = manage("invariants", WAYSTATION_DATA=str(tmp_path / "there"))
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        (
            "The database lacks tables of this version. Run `manage.py migrate` first; "
            "nothing was changed.\n"
        ),
    )
    done = manage(
        "invariants",
        WAYSTATION_DATA=str(tmp_path / "there"),
        DATABASE_URL="postgresql://a:b@127.0.0.1:1/c",
    )
    assert done.returncode == 1 and done.stderr.startswith(
        "The database cannot be used: connection failed"
    )
    assert (
        "Traceback"
        in manage("invariants", "--traceback", WAYSTATION_DATA=str(tmp_path / "there")).stderr
    )


def lines(page):
    """The commands of a page's code blocks, each with its continued lines."""
    for language, body in re.findall(
        r"^```(\w*)\n(.*?)^```$", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE
    ):
        if language in {"", "sh"}:
            whole = re.sub(
                r"\\\n\s*", " ", re.sub(r"'[^']*'", lambda text: text[0].replace("\n", " "), body)
            )
            yield from (line for line in whole.splitlines() if COMMAND.match(line))


@pytest.mark.one_database
@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_the_documents_can_be_pasted_into_bash_and_zsh(page):
    """zsh took `# …` for arguments of make, and `?open=1` for a file that is not there."""
    for line in lines(page):
        shlex.split(line)  # every quote is closed
        bare = re.sub(r"'[^']*'|\"[^\"]*\"|\$\([^)]*\)", "", line)
        assert not re.search(r"(^|\s)#|[?*\[\]!]|^\$ ", bare), line


@pytest.mark.one_database
@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r"1\. a\_b \*c\* \<d\> \\ \#", r"1. a_b *c* <d> \ #"),
        (r"`a\_b` and ``c\`d`` x\_y", r"`a\_b` and ``c\`d`` x_y"),
        ("```\na\\_b\n```\nc\\_d", "```\na\\_b\n```\nc_d"),
        ("~~~\na\\_b", "~~~\na\\_b"),
        (r"C:\path \é", r"C:\path \é"),
    ],
)
def test_a_mail_of_plain_text_has_no_backslashes_of_markdown(written, read):
    """People read `Datei\\_neu\\.pdf`."""
    assert markdown.unescaped(written) == read
