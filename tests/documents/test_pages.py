"""Every command and every code block of README and tutorial, run as they stand there."""

from __future__ import annotations

import json
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from checkpoints.database import older_database
from tests.databases import copies
from tests.documents.blocks import ROOT, Block, blocks
from tests.documents.screenshot import browser, photograph, start_demo
from tests.programs.begun import Begun
from tests.servers.stack import Stack

README, TUTORIAL = "README.md", "docs/tutorial.md"
UP = "exec .venv/bin/python manage.py standalone --demo --port 8000"
"""What `make up` ends in."""


def would_run(command: str) -> str:
    """What a `make` command runs, without running it."""
    words = [*command.split(), "--dry-run"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Stack]:
    """The embedded product in an empty home; its tables are there, which saves seconds."""
    home = tmp_path / "home"
    home.mkdir()
    stack = Stack(tmp_path, {"HOME": str(home)})
    copies.sqlite(tmp_path / "data")
    yield stack
    stack.stop()


class Reader:
    """Somebody who works through a page from the top, and skips nothing."""

    def __init__(self, page: str, stack: Stack) -> None:
        self.stack = stack
        self.rest = [
            Block(block.language, line)
            for block in blocks(page)
            for line in (block.commands if not block.language else [block.text])
        ]
        self.order = ""
        """What stands for `wo_…`."""

    def next(self, beginning: str) -> str:
        """The page's next line or file, which is expected to begin so."""
        assert self.rest, f"the page ends before {beginning!r}"
        block = self.rest.pop(0)
        assert block.text.removeprefix(".venv/bin/python manage.py ").startswith(beginning), block
        return block.text

    def types(self, beginning: str) -> str:
        """Run the page's next command as a shell does; return what it prints."""
        command = self.next(beginning)
        for written, here in (
            (".venv/bin/python", sys.executable),
            ("python3 ", f"{sys.executable} "),
            ("http://127.0.0.1:8000", self.stack.url),
            ("data/sample", f"{self.stack.environment['WAYSTATION_DATA']}/sample"),
            ("wo_…", self.order),
        ):
            command = command.replace(written, here)
        said = self._told(command)
        if made := re.match(r"wo_[0-9a-z]{26}$", said):
            self.order = made[0]
        return said

    def _told(self, command: str) -> str:
        if command.startswith(f"{sys.executable} manage.py ") and not re.search(
            "[|&;<>$`]", command
        ):
            # words alone: one that begins with the libraries loaded takes half the time
            return self.stack.manage(*shlex.split(command)[2:])
        if found := re.fullmatch(rf"PYTHONPATH=(\S+) {re.escape(sys.executable)} (.+)", command):
            home = self.stack.environment["HOME"]
            search, words = (re.sub(r"\$HOME|~", home, part) for part in found.groups())
            tests = Begun(*words.split(), environment=self.stack.environment, search=search).ended()
            return tests.stdout + tests.stderr
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=ROOT,
            env=self.stack.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def exports(self, name: str) -> None:
        """Take the page's next `export` over into this terminal."""
        line = re.sub(
            r"\.venv/bin/python manage\.py ([\w ]+?) \|",
            lambda command: f"echo {shlex.quote(self.stack.manage(*command[1].split()))} |",
            self.next(f"export {name}="),
        )
        done = subprocess.run(
            ["bash", "-c", f'{line}; printf %s "${name}"'],
            cwd=ROOT,
            env=self.stack.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        self.stack.environment[name] = done.stdout

    def saves(self, name: str) -> None:
        """Write the page's next block to a file in the home folder."""
        text = self.next("").replace("http://127.0.0.1:8000", self.stack.url)
        (Path(self.stack.environment["HOME"]) / name).write_text(text)


@pytest.mark.stack
def test_a_newcomer_who_types_what_the_tutorial_says_gets_what_it_says(newcomer, tmp_path):
    """The pages' examples were never run: names that a page used could go, and nobody was told."""
    reader = Reader(TUTORIAL, newcomer)

    # 1. Approve a plan
    assert UP in would_run(reader.next("make up"))
    password, path = start_demo(newcomer)
    with browser(newcomer.url, password, path) as page:
        photograph(page, tmp_path / "pause-card.png")
        card = page.locator("article.card.pause")
        page.locator("[data-revise]").click()
        page.get_by_label("Feedback for the revision").fill("only UP in src/")
        page.get_by_role("button", name="Submit Revision").click()
        expect(card).to_contain_text("Changed since revision 1", timeout=60_000)
    reader.order = path.removeprefix("/work-orders/").rstrip("/")
    assert reader.order in reader.types("workorder --user reviewer list")
    assert "Waiting for Plan Approval (revision 2)" in reader.types(
        "workorder --user reviewer show"
    )

    # 2. Write a workflow of your own
    letters = Path(newcomer.environment["HOME"]) / "letters"
    reader.types("mkdir")
    reader.saves("letters/letters.py")
    reader.saves("letters/test_letters.py")
    assert "2 passed" in reader.types("PYTHONPATH=")
    started = would_run(reader.next("make up"))
    assert UP in started
    [named] = re.findall(r'WAYSTATION_WORKFLOWS="([^"]+)"', started)
    newcomer.environment["WAYSTATION_WORKFLOWS"] = named
    newcomer.kill(newcomer.processes[-1])
    newcomer.standalone("--demo")
    printed = (newcomer.folder / "standalone.log").read_text()
    assert re.search(rf"Loaded +letters +{letters}/letters.py, line \d+", printed), printed
    del newcomer.environment["WAYSTATION_WORKFLOWS"]  # the server's terminal alone has it so far
    token = newcomer.manage("api_token", "reviewer").split()[-1]
    reader.exports("WAYSTATION_WORKFLOWS")
    reader.types("workorder --user reviewer create --template letters")
    newcomer.paused(reader.order, token, "awaiting_letter_approval")
    assert "Your parcel comes on Monday." in reader.types("workorder --user reviewer show")
    reader.types("workorder --user reviewer revise")
    newcomer.paused(reader.order, token, "awaiting_letter_approval", revision=2)
    reader.types("workorder --user reviewer approve")
    newcomer.ended(reader.order, token)
    sent = reader.types("cat")
    assert sent.startswith("Dear Ms Ruiz,")
    assert sent.endswith("Your parcel comes on Monday.\n\nPS: Ring twice.\n")

    # 3. Answer it from a program
    reader.exports("TOKEN")
    reader.order = json.loads(reader.types("curl"))["id"]
    newcomer.paused(reader.order, token, "awaiting_letter_approval")
    reader.saves("answer_letters.py")
    assert reader.types("python3") == f"{reader.order}: approve\n"
    events = reader.types("curl -N")
    told = re.findall(r"^event: (\w+)$", events, re.MULTILINE)
    assert [told.count(kind) for kind in ("approval_requested", "approval_received")] == [1, 1]
    assert "run_completed" in told
    assert (letters / "outbox" / f"{reader.order}.txt").read_text().endswith("on Tuesday.\n")
    assert reader.rest == []


@pytest.mark.one_database
def test_every_command_of_the_readme_is_one_that_the_makefile_has():
    """`.ci/run` calls what README says, word for word; a picture that README shows is there."""
    [first, *others] = [line for block in blocks(README) for line in block.commands]
    assert UP in would_run(first)
    assert others == []
    text = (ROOT / README).read_text()
    named = re.findall(r"`(make [^`…]*)`", text)
    assert {"make test", "make check"} <= set(named)
    for command in named:
        would_run(re.sub(r'ARGS="[^"]*"|[A-Z]+=\S+', "", command))
    ci = (ROOT / ".ci" / "run").read_text()
    assert re.findall(r"^make .*", ci, re.MULTILINE) == ["make check", "make test"]
    assert os.path.getsize(ROOT / "docs" / "images" / "pause-card.png") < 150_000
    assert "docs/images/pause-card.png" in text


@pytest.mark.one_database
def test_an_exported_folder_of_repositories_is_kept(monkeypatch):
    """S4-56: `make up` set the variable to nothing."""
    monkeypatch.setenv("WAYSTATION_REPOSITORIES", "/srv/git")
    assert 'WAYSTATION_REPOSITORIES="/srv/git"' in would_run("make up")
    assert 'WAYSTATION_REPOSITORIES="/home/me"' in would_run("make up REPOSITORIES=/home/me")


@pytest.mark.one_database
def test_what_is_said_to_prove_a_promise_is_there():
    """README named seven tests that had moved or had another name."""
    text = (ROOT / "docs" / "reference" / "promises.md").read_text()
    promises = re.split(r"^## (P\d+)$", text, flags=re.MULTILINE)[1:]
    assert promises[::2] == [f"P{number}" for number in range(1, 13)]
    for name, said in zip(promises[::2], promises[1::2], strict=True):
        proofs = re.findall(r"`(tests/[^`]+)`", said)
        assert proofs and "Measured: " in said, name
        assert [path for path in proofs if not (ROOT / path).exists()] == [], name


@pytest.mark.one_database
def test_what_a_page_imports_from_us_is_there(monkeypatch):
    """A page imported `step` from a module that has none."""
    monkeypatch.setattr(older_database, "refusal", lambda: "")  # the server's module asks for it
    gone = []
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for block in blocks(str(page.relative_to(ROOT))):
            found = re.findall(
                r"^from ((?:checkpoints|runs|hitl|extensions)\b\S*) import ([\w, ]+)",
                block.text,
                re.MULTILINE,
            )
            gone += [
                f"{page.name}: from {module} import {name}"
                for module, names in found
                for name in (said.split(" as ")[0].strip() for said in names.split(","))
                if not resolves(f"{module}.{name}")
            ]
    assert gone == []


def resolves(name: str) -> bool:
    """Whether a dotted name is a module, or what a module has."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True
