"""What `pip install` of each documented combination brings is enough for what it promises."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

import httpx
import pytest

from tests.databases import copies
from tests.documents.blocks import blocks
from tests.project import optional
from tests.servers.private import answers, free_port, processor_seconds
from tests.servers.stack import ROOT, until

PAGE = ROOT / "docs/reference/compatibility.md"
FILE = r"(?:requirements-(\w+)|extensions/(\w+)/requirements)\.txt"
"""As documents name an optional file: its name, beside requirements.txt or within an extension."""
NOT_SERVED = {"dev", "model"}
"""Files for the tests alone; the second is installed without what its packages need."""
MODULES = ("extensions", "project", "hitl", "runs", "checkpoints")
SET = {
    "mcp": {"WAYSTATION_MCP": "1"},
    "otel": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
    "saml": {
        "WAYSTATION_SAML_ISSUER": "https://idp.example",
        "WAYSTATION_SAML_METADATA": "/nowhere/metadata.xml",
    },
    "sentry": {"SENTRY_DSN": "http://key@127.0.0.1:9/1"},
}
"""What has the product use an optional package from its start."""
ALWAYS = {
    "WAYSTATION_OIDC_ISSUER": "https://login.example",
    "WAYSTATION_OIDC_CLIENT_ID": "waystation",
    "WAYSTATION_OIDC_CLIENT_SECRET": "a secret of the tests",
}
"""A provider that needs no optional package."""


def extras() -> dict[str, tuple[list[str], list[str]]]:
    """By the page: each optional file, what it brings to import, and what of ours needs that."""
    rows = re.findall(rf"^\| `{FILE}` \|[^|]*\|([^|]*)\|([^|]*)\|", PAGE.read_text(), re.MULTILINE)
    return {
        beside or within: (re.findall(r"`([\w.]+)`", brings), re.findall(r"`([\w.]+)`", needs))
        for beside, within, brings, needs in rows
    }


def combinations() -> dict[frozenset[str], str]:
    """All that somebody may install by our words: none, each alone, what documents and the image
    name together, and all.
    """
    names = optional.files().keys() - NOT_SERVED
    found = {frozenset[str](): "none", frozenset(names): "all"}
    found |= {frozenset({name}): name for name in names}
    dockerfile = ROOT / "project/shipping/Dockerfile"
    documents = [dockerfile, ROOT / "README.md", ROOT / "Makefile", *(ROOT / "docs").rglob("*.md")]
    for line in "\n".join(path.read_text() for path in documents).splitlines():
        named = {beside or within for beside, within in re.findall(rf"-r {FILE}", line)}
        for words in [named, *map(str.split, re.findall(r'EXTRAS="([\w ]*)"', line))]:
            if not NOT_SERVED & {*words}:
                found.setdefault(frozenset(words), "-".join(sorted(words)))
    return found


def modules() -> dict[str, set[str]]:
    """All modules of the product, and the packages of others that each imports, wherever in it; not
    for types alone.
    """
    ours = {*MODULES, *sys.stdlib_module_names}
    paths = (path for top in MODULES for path in (ROOT / top).rglob("*.py"))
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): {
            *_imports(ast.parse(path.read_text()))
        }
        - ours
        for path in paths
        if "shipping" not in path.parts  # wheels are built in an environment of its own
    }


def _imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in node.names)
    if isinstance(node, ast.ImportFrom) and node.module:
        yield node.module.partition(".")[0]
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):  # nothing else has one
            yield from _imports(child)


def test_the_page_names_every_optional_file_and_combination():
    assert extras().keys() == optional.files().keys() - NOT_SERVED
    assert optional.files().keys() > NOT_SERVED


def test_no_two_files_pin_different_versions():
    """They are one resolution: each may be installed beside each other one."""
    pins: dict[str, set[str]] = {}
    for path in (Path("requirements.txt"), *optional.files().values()):
        for line in (ROOT / path).read_text().splitlines():
            if line and not line.startswith(("#", "-r ")):
                name, _, version = line.partition("==")
                assert version, f"{path}: {line} has no pin"
                pins.setdefault(re.sub(r"\[.*\]", "", name).lower(), set()).add(version)
    assert {name: many for name, many in pins.items() if len(many) > 1} == {}


def _uv(*words: str) -> None:
    command = [str(Path(sys.executable).with_name("uv")), *words]
    # the tests' environment has the same packages, so uv keeps them on this machine
    if subprocess.run([*command, "--offline"], cwd=ROOT, capture_output=True).returncode:
        subprocess.run(command, cwd=ROOT, check=True)


class Installation:
    """A virtual environment with some of the optional files."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.names = folder, frozenset[str]()
        self.venv, self.database = folder / "venv", folder / "waystation.sqlite3"
        self.first = set[str]()
        """What requirements.txt alone brings, by name."""
        folder.mkdir()
        shutil.copyfile(copies.sqlite_tables(), self.database)

    def like(self, other: Installation) -> None:
        """Make it of links of the same files, as uv does: what Python has translated once need not
        be translated again.
        """
        subprocess.run(["cp", "-al", str(other.venv), str(self.venv)], check=True)

    def translated_by(self, other: Installation) -> None:
        """Take along what Python has translated of the same files for another."""
        [mine, theirs] = [next(one.venv.glob("lib/*/site-packages")) for one in (self, other)]
        for folder in theirs.rglob("__pycache__"):
            here = mine / folder.relative_to(theirs)
            if here.parent.is_dir() and not here.exists():
                shutil.copytree(folder, here, copy_function=os.link)

    def have(self, names: frozenset[str]) -> None:
        """Install these optional files, and take away what others brought alone."""
        if self.names - names:
            self._pip("uninstall", *(self.packages() - self.first))
        chosen = (str(optional.files()[name]) for name in sorted(names))
        self.install(*(word for file in ("requirements.txt", *chosen) for word in ("-r", file)))
        if not names:
            self.first = self.packages()
        self.names = names

    def packages(self) -> set[str]:
        """All that is installed, by name."""
        metadata = (path.name for path in self.venv.glob("lib/*/site-packages/*.dist-info"))
        return {name.partition("-")[0] for name in metadata}

    def install(self, *words: str) -> None:
        self._pip("install", *words)

    def _pip(self, command: str, *words: str) -> None:
        _uv("pip", command, "-q", "--python", str(self.venv / "bin/python"), *words)

    def tried(self, known: Mapping[str, set[str]]) -> str:
        """Try what it promises; give what is wrong. `known`: what each module imports.

        What has nothing to do with optional files is imported where there is none of them and where
        there are all: between these nothing is another for it.
        """
        promised = extras()
        brought = {one.partition(".")[0] for brings, _ in promised.values() for one in brings}
        needing = tuple(f"{one}." for _, needs in promised.values() for one in needs)
        every = self.names in (frozenset(), frozenset(promised))
        concerned = [
            name
            for name, imports in known.items()
            if every or imports & brought or f"{name}.".startswith(needing)
        ]
        there = [one for name in sorted(self.names) for one in promised[name][0]]
        packages = set().union(*known.values()) if every else set()
        absent = [promised[name] for name in promised if name not in self.names]
        asked = {
            "imports": [*sorted(packages), *there, *sorted(concerned)],
            "absent": [one for brings, needs in absent for one in (*brings, *needs)],
        }
        if every:
            with self._trying() as cold:
                wrong = self._asked(cold, asked)
        else:
            wrong = self._asked(self.warm, asked)
        return f"{sorted(self.names)}\n{wrong}" if wrong else ""

    def _asked(self, process: subprocess.Popen[str], asked: Mapping[str, list[str]]) -> str:
        assert process.stdin and process.stdout
        process.stdin.write(f"{json.dumps([self._environment(), asked])}\n")
        process.stdin.flush()
        wrong: str = json.loads(process.stdout.readline())
        return wrong

    @cached_property
    def warm(self) -> subprocess.Popen[str]:
        """Begins what is neither none nor all of it with the libraries read that all have."""
        return self._trying("warm")

    def _trying(self, *words: str) -> subprocess.Popen[str]:
        program = ROOT / "tests/programs/installed.py"
        command = [str(self.venv / "bin/python"), str(program), *words]
        here = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=ROOT, env=here, stdin=pipe, stdout=pipe, text=True)

    def _environment(self) -> Mapping[str, str]:
        mine = {key: value for name in self.names for key, value in SET.get(name, {}).items()}
        return {
            **ALWAYS,
            **mine,
            "DATABASE_URL": f"sqlite:///{self.database}",
            "WAYSTATION_DATA": str(self.folder / "data"),
        }


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """What requirements.txt alone brings, for all tests here."""
    folder = tmp_path_factory.mktemp("installing")
    one = Installation(folder / "none")
    _uv("venv", "-q", "--python", sys.executable, str(one.venv))
    one.have(frozenset())
    yield one
    shutil.rmtree(folder)  # 300 MB, in memory


@pytest.fixture(scope="module")
def wheel(plain):
    """An environment with the wheels of this repository, and nothing of its folder."""
    made = plain.folder.with_name("wheels")
    for folder in (".", "client"):
        _uv("build", "-q", "--wheel", "-o", str(made), folder)
    one = Installation(plain.folder.with_name("wheel"))
    one.like(plain)
    [server] = made.glob("waystation-*.whl")
    [client] = made.glob("waystation_client-*.whl")
    one.install(f"{server}[testing]", str(client))
    return one


def _bare(wheel: Installation, **given: str) -> dict[str, str]:
    """The environment of somebody who has installed it, and set nothing."""
    folder = wheel.folder
    return {"PATH": f"{wheel.venv}/bin:/usr/bin:/bin", "HOME": str(folder), **given}


@pytest.mark.stack
def test_an_installation_starts_with_one_command_and_has_all_that_a_checkout_has(wheel):
    """Issue 37, 3. There was no wheel: the product ran where its repository was cloned. On a
    machine that nobody has used, with nothing translated yet and no tables, it answers within 40
    seconds of a processor.
    """
    port = free_port()
    # beside the wheel's modules stand none of the repository's
    command = [str(wheel.venv / "bin/waystation-server"), "up", "--port", str(port)]
    server = subprocess.Popen(
        command, cwd=wheel.folder, env=_bare(wheel), stdout=subprocess.PIPE, text=True
    )
    try:
        until(lambda: answers(port), what="an open port", seconds=240)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=240) as client:
            assert client.get("/livez").status_code == 200
            assert (spent := processor_seconds(server.pid)) < 40, spent
            page = client.get("/login", headers={"Accept-Language": "de"})
            assert page.status_code == 200 and "Anmelden" in page.text
            for path in ("/static/css/app.css", "/static/js/page.js", "/favicon.ico"):
                assert client.get(path, follow_redirects=True).status_code == 200, path
            head = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True)
            assert client.get("/readyz").json()["commit"] == head.strip()
    finally:
        server.terminate()
        said, _ = server.communicate(timeout=60)
    assert server.returncode == 0 and "password" in said
    helped = subprocess.run(
        [wheel.venv / "bin/waystation", "--help"], env=_bare(wheel), capture_output=True
    )
    assert helped.returncode == 0


@pytest.mark.stack
def test_an_authors_tests_run_with_the_installed_kit(wheel, tmp_path):
    """Issue 37, 3: `pip install waystation[testing]`, and no PYTHONPATH."""
    (tmp_path / "letters.py").write_text(_python("docs/tutorial.md")[0])
    (tmp_path / "test_letters.py").write_text(_python("docs/how-to/test-workflows.md")[0])
    done = subprocess.run(
        [wheel.venv / "bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path],
        env=_bare(wheel, TMPDIR=tempfile.gettempdir()),  # there are the kit's tables
        cwd=wheel.folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


def _python(page: str) -> list[str]:
    return [block.text for block in blocks(page) if block.language == "python"]


@pytest.mark.stack
def test_each_documented_combination_starts_and_does_what_it_promises(plain, wheel, tmp_path):
    """Issue 30, 8. The documented installation for production did not start: a library came along
    with two optional files alone, and all that was ever tried had one of these.
    """
    found, known = {*combinations()}, modules()
    assert {"extensions.mcp.door.server", "runs.git.forges.github", "hitl"} <= known.keys()
    one = Installation(tmp_path / "one")
    one.like(plain)
    one.translated_by(wheel)
    problems = []

    def turn(names: frozenset[str]) -> tuple[int, int]:
        """Small ones first; of those with one file, what most others have too comes last, and
        stays.
        """
        return len(names), sum(names < more for more in found)

    # of two that are alike the one with the models comes last, which is the larger
    for names in sorted(sorted(found, key=sorted, reverse=True), key=turn):
        one.have(names)
        problems.append(one.tried(known))
    one.warm.communicate()
    shutil.rmtree(tmp_path)  # 460 MB, and the tests' files may lie in memory
    assert not any(problems), "\n\n".join(problem for problem in problems if problem)
