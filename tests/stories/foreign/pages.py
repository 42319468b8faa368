"""Other people's pages, unmodified: fetched at a commit, built once, and served."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from tests.databases import copies
from tests.node.install import found
from tests.servers.private import free_port
from tests.servers.stack import SlowStack

HERE = Path(__file__).resolve().parent
BUILT = HERE.parents[1] / ".artifacts" / "foreign"
CHECKOUTS = "FOREIGN"
"""A variable that names a folder of repositories, for a machine that does not reach GitHub."""
NO_SCRIPTS = "--ignore-scripts"
MINUTES = 20
WAIT = 60
"""Seconds until a page is served."""
STORIES = ("inbox_stories.py", "chat_stories.py", "copilotkit_stories.py")


class Missing(Exception):
    """What a page needs is not there; says what."""


@dataclass(frozen=True, kw_only=True)
class Client:
    name: str
    install: tuple[str, ...]
    """Words of npx, with the lock that its people keep."""
    build: tuple[str, ...]
    serve: tuple[str, ...]
    """`{port}` is where."""
    commit: str = ""
    """Of its repository at GitHub; "" for a page of packages alone, which is beside this file."""

    @property
    def folder(self) -> Path:
        return BUILT / f"{self.name}-{self.commit[:7]}".strip("-")

    @property
    def source(self) -> str:
        folder = os.environ.get(CHECKOUTS)
        return f"{folder}/{self.name}" if folder else f"https://github.com/langchain-ai/{self.name}"


INBOX = Client(
    name="agent-inbox",
    commit="07565dbccd4b885398fd00734a5db5b8fbaf5657",
    install=(
        "yarn@1.22.22",
        "install",
        "--frozen-lockfile",
        "--ignore-engines",
        "--non-interactive",
        NO_SCRIPTS,
    ),
    build=("next", "build"),
    serve=("next", "start", "--port", "{port}"),
)
CHAT = Client(
    name="agent-chat-ui",
    commit="fdc87e65307581b02898d33c62b3f285e56bd85b",
    install=("pnpm@10.5.1", "install", "--frozen-lockfile", NO_SCRIPTS),
    build=("next", "build"),
    serve=("next", "start", "--port", "{port}"),
)
COPILOTKIT = Client(
    name="copilotkit",
    install=("npm", "install", "--no-audit", "--no-fund", "--legacy-peer-deps", NO_SCRIPTS),
    build=(
        *("esbuild", "page.jsx", "--bundle", "--jsx=automatic", "--outfile=page.js"),
        *(f"--loader:.{kind}=empty" for kind in ("woff2", "woff", "ttf")),
        '--define:process.env.NODE_ENV="production"',
    ),
    serve=("node", "server.mjs", "{port}"),
)  # fmt: skip


def make(client: Client) -> None:
    """Fetch and build it, unless that is done. Raises Missing."""
    done = client.folder / "is-built"
    if done.exists():
        return
    print(f"Building {client.name} in {client.folder}: some minutes, only once.", flush=True)
    shutil.rmtree(client.folder, ignore_errors=True)
    client.folder.mkdir(parents=True)
    if client.commit:
        again = f"Set {CHECKOUTS} to a folder that holds {client.name} as a git repository."
        clone = ("git", "clone", "--quiet", "--no-checkout", client.source, ".")
        _run(client, clone, f"{client.source} could not be cloned. {again}")
        there = ("git", "checkout", "--quiet", "--detach", client.commit)
        _run(client, there, f"{client.source} has no commit {client.commit}.")
    else:
        shutil.copytree(HERE / client.name, client.folder, dirs_exist_ok=True)
    offline = "Its packages could not be had from npm's registry."
    _run(client, _npx(client.install), offline)
    _run(client, _npx(client.build), "It could not be built.")
    done.touch()


def _npx(words: tuple[str, ...]) -> tuple[str, ...]:
    return words if words[0] in {"npm", "node"} else ("npx", "--yes", *words)


def _run(client: Client, words: tuple[str, ...], otherwise: str) -> None:
    try:
        subprocess.run(
            words, cwd=client.folder, env=_environment(), check=True, timeout=MINUTES * 60
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Missing(f"{client.name}: {otherwise} ({error})") from error


def _environment() -> Mapping[str, str]:
    return {
        **os.environ,
        "PATH": f"{_node()}{os.environ['PATH']}",
        "NEXT_TELEMETRY_DISABLED": "1",
        "COPILOTKIT_TELEMETRY_DISABLED": "true",
        # the build asks Google for a font otherwise
        "NEXT_FONT_GOOGLE_MOCKED_RESPONSES": str(HERE / "fonts.cjs"),
    }


def _node() -> str:
    """What PATH needs before it. Raises Missing."""
    try:
        return found()[1]
    except (OSError, subprocess.SubprocessError) as error:
        raise Missing(
            f"There is no Node 20 or newer, and none could be installed: {error}"
        ) from error


@contextmanager
def served(client: Client, environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """Its address, while it is served."""
    port = free_port()
    words = [word.format(port=port) for word in _npx(client.serve)]
    url = f"http://127.0.0.1:{port}"
    with (client.folder / "served.log").open("wb") as log:
        process = subprocess.Popen(
            words, cwd=client.folder, env={**_environment(), **(environment or {})},
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            _until_served(url, process)
            yield url
        finally:
            os.killpg(process.pid, 15)
            process.wait(30)


def _until_served(url: str, process: subprocess.Popen[bytes]) -> None:
    ends = time.monotonic() + WAIT
    while time.monotonic() < ends:
        assert process.poll() is None, "the page's server ended: see served.log"
        try:
            with urlopen(url, timeout=5):
                return
        except (URLError, OSError):
            time.sleep(0.2)  # another program begins
    raise AssertionError(f"{url} is not served after {WAIT} s")


@contextmanager
def product(folder: Path, url: str, *loads: str) -> Iterator[SlowStack]:
    """The running product, whose door pages of that origin may use."""
    stack = SlowStack(folder, {"WAYSTATION_LANGGRAPH_ORIGINS": url})
    copies.sqlite(stack.folder / "data")
    stack.load("".join(loads))
    stack.standalone()
    try:
        yield stack
    finally:
        stack.stop()
