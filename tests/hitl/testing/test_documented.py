"""What docs/how-to/test-workflows.md shows is run as it is printed, in an author's own process."""

from __future__ import annotations

import re

from tests.documents.blocks import blocks
from tests.programs.begun import Begun, plain

AUTHOR = """
import os, pytest, sys

folder, *words = sys.argv[1:]
os.chdir(folder)
sys.exit(pytest.main(words))
"""

EXPORT = """
import json, pathlib, letters
from hitl.testing import play

letters.OUTBOX = pathlib.Path("outbox")
run = play(letters, request="Your parcel comes on Monday.").approve()
pathlib.Path("exports").mkdir()
pathlib.Path(NAME).write_text(json.dumps(run.exported()))
"""


def python(page):
    return [block.text for block in blocks(page) if block.language == "python"]


def test_the_tests_of_the_page_pass_as_they_are_printed(tmp_path):
    """17-3: the workflow is the tutorial's; nothing but pytest and this repository is there."""
    tests = python("docs/how-to/test-workflows.md")
    assert len(tests) == 3
    (tmp_path / "letters.py").write_text(python("docs/tutorial.md")[0])
    (tmp_path / "test_letters.py").write_text("\n\n".join(tests))
    [name] = re.findall(r'"(exports/[^"]+)"', tests[2])
    (tmp_path / "conftest.py").write_text(EXPORT.replace("NAME", repr(name)))
    words = ("-q", "-p", "no:cacheprovider", str(tmp_path))
    done = Begun("-c", AUTHOR, str(tmp_path), *words, environment=plain()).ended()
    assert done.returncode == 0 and "3 passed" in done.stdout, done.stdout + done.stderr
