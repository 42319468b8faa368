"""`make mcp-conformance`: the protocol's own kit against `fixtures` behind the mount of our door.

The kit and a Node that it runs on are put into a folder, once.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
KIT = ["@modelcontextprotocol/conformance@0.2.0-alpha.12", "node@22"]
REVISION = "2026-07-28"
STARTS = 60.0
"""Seconds for which the server is waited for."""


def main(folder: Path, words: list[str]) -> int:
    """Run what the revision requires, or what the kit is told by `words`; gives its exit code."""
    programs = folder / "node_modules/.bin"
    if not (programs / "conformance").exists():
        folder.mkdir(parents=True, exist_ok=True)
        install = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", *KIT]
        subprocess.run(install, cwd=folder, check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    daphne = [sys.executable, "-m", "daphne", "-v", "0", "-p", str(port)]
    with subprocess.Popen([*daphne, "tests.servers.mcp.fixtures:application"], cwd=ROOT) as server:
        try:
            _await(port, server)
            # the kit asks by this name, and the door's guard looks at it
            kit = [f"{programs}/conformance", "server", "--url", f"http://localhost:{port}/mcp"]
            node = [f"{programs}/node", *kit, *(words or ["--requirements", REVISION])]
            return subprocess.run(node, cwd=folder, check=False).returncode
        finally:
            server.terminate()


def _await(port: int, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + STARTS
    while time.monotonic() < until and server.poll() is None:
        with socket.socket() as there:
            if there.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)  # nothing tells when another program listens
    sys.exit("The fixture server did not start.")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2:]))
