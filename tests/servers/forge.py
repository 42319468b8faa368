"""A forge over real HTTP: the routes of GitHub's and GitLab's REST that are used, and git's smart
HTTP, all behind a token.

One process, one thread per request. `Forge.failures` says what goes wrong next: what is in it is
taken in order, one a REST request.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "token-of-the-forge-4f1c"
PROJECT = "ada/engine"
LOST = -1
"""A failure: the request is done, and its answer is lost."""
SLOW = -2
"""A failure: no answer for longer than any client waits."""


@dataclass
class Failure:
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    only: str = ""
    """A method; requests of others pass."""

    @property
    def said(self) -> Any:
        return {"message": f"Failed with {self.status}"} if self.body is None else self.body


@dataclass
class Forge:
    url: str
    repositories: Path
    """Holds bare repositories as `owner/name.git`."""
    pulls: list[dict[str, Any]] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    """`METHOD path` of every request that brought the token."""
    git_status: int = 0
    """What git is answered instead of being served."""
    before_answer: Any = None
    """Called after a pull request was opened, before the answer goes out."""

    def fail(self, status: int, times: int = 1, **more: Any) -> None:
        self.failures += [Failure(status, **more)] * times

    @property
    def open(self) -> list[dict[str, Any]]:
        return [pull for pull in self.pulls if pull["open"]]

    @property
    def clone_url(self) -> str:
        return f"{self.url}/{PROJECT}.git"

    def branch_head(self, branch: str) -> str:
        path = self.repositories / f"{PROJECT}.git"
        found = subprocess.run(
            ["git", "-C", path, "rev-parse", "-q", "--verify", f"refs/heads/{branch}"],
            capture_output=True,
            text=True,
        )
        return found.stdout.strip()


@contextmanager
def serving(repositories: Path) -> Iterator[Forge]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    forge = Forge(f"http://127.0.0.1:{server.server_port}", repositories)
    server.forge = forge  # type: ignore[attr-defined]  # read by the handler below
    server.lock = threading.Lock()  # type: ignore[attr-defined]  # as above
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    ).start()
    try:
        yield forge
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    @property
    def forge(self) -> Forge:
        return self.server.forge  # type: ignore[attr-defined,no-any-return]  # set by `serving`

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PATCH = do_PUT = do_GET

    def _serve(self) -> None:
        body = self._body()
        path = urlsplit(self.path).path
        if ".git/" in path:
            return self._git(path, body)
        if not self._has_token():
            return self._answer(401, {"message": "Bad credentials"})
        self.forge.seen.append(f"{self.command} {unquote(path)}")
        failure = next(
            (one for one in self.forge.failures[:1] if one.only in ("", self.command)), None
        )
        if failure:
            self.forge.failures.remove(failure)
        if failure and failure.status == SLOW:
            time.sleep(3)  # slower than whoever asks waits
            return None
        if failure and failure.status != LOST:
            return self._answer(failure.status, failure.said, failure.headers)
        with self.server.lock:  # type: ignore[attr-defined]  # as above
            status, answer = self._rest(path, json.loads(body or b"{}"))
        if failure:
            self.close_connection = True
            return None
        if status == 201 and self.forge.before_answer:
            self.forge.before_answer()
        return self._answer(status, answer)

    def _has_token(self) -> bool:
        sent = {
            self.headers.get("PRIVATE-TOKEN"),
            (self.headers.get("Authorization") or "")
            .removeprefix("token ")
            .removeprefix("Bearer "),
        }
        return TOKEN in sent

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            chunks = []
            while size := int(self.rfile.readline(), 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(chunks)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _answer(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        sent = json.dumps(value).encode()
        self.send_response(status)
        for name, text in {
            "Content-Type": "application/json",
            "Content-Length": str(len(sent)),
            **(headers or {}),
        }.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(sent)

    def _rest(self, path: str, values: dict[str, Any]) -> tuple[int, Any]:
        query = {name: found[0] for name, found in parse_qs(urlsplit(self.path).query).items()}
        if path.startswith("/api/v4/projects/"):
            return self._gitlab(
                re.sub(rf"^/api/v4/projects/({PROJECT}|7)(?=/|$)", "", unquote(path)), query, values
            )
        return self._github(path.removeprefix(f"/repos/{PROJECT}"), query, values)

    def _github(self, path: str, query: dict[str, str], values: dict[str, Any]) -> tuple[int, Any]:
        match self.command, path.split("/")[1:]:
            case "GET", []:
                return 200, {
                    "full_name": PROJECT,
                    "default_branch": "main",
                    "url": f"{self.forge.url}/repos/{PROJECT}",
                }
            case "GET", ["pulls"]:
                wanted = query.get("head", "").partition(":")[2]
                return 200, [
                    self._as_github(pull) for pull in self.forge.open if pull["branch"] == wanted
                ]
            case "POST", ["pulls"]:
                made = self._made(
                    values["head"],
                    values["base"],
                    values["title"],
                    values["body"],
                    values.get("draft", False),
                )
                said = {
                    "message": "Validation Failed",
                    "errors": [
                        {"message": f"A pull request already exists for ada:{values['head']}."}
                    ],
                }
                return (201, self._as_github(made)) if made else (422, said)
            case (("GET" | "PATCH"), ["pulls", number]):
                pull = self.forge.pulls[int(number) - 1]
                pull |= {name: values[name] for name in ("title", "body") if name in values}
                return 200, self._as_github(pull)
        return 404, {"message": "Not Found"}

    def _gitlab(self, path: str, query: dict[str, str], values: dict[str, Any]) -> tuple[int, Any]:
        match self.command, path.split("/")[1:]:
            case "GET", []:
                return 200, {"id": 7, "path_with_namespace": PROJECT, "default_branch": "main"}
            case "GET", ["merge_requests"]:
                return 200, [
                    self._as_gitlab(pull)
                    for pull in self.forge.open
                    if pull["branch"] == query.get("source_branch")
                ]
            case "POST", ["merge_requests"]:
                made = self._made(
                    values["source_branch"],
                    values["target_branch"],
                    values["title"],
                    values["description"],
                    False,
                )
                said = {
                    "message": [
                        "Another open merge request already exists for this source branch: !1"
                    ]
                }
                return (201, self._as_gitlab(made)) if made else (409, said)
            case "PUT", ["merge_requests", number]:
                pull = self.forge.pulls[int(number) - 1]
                pull |= {"title": values["title"], "body": values["description"]}
                return 200, self._as_gitlab(pull)
        return 404, {"message": "404 Project Not Found"}

    def _made(
        self, branch: str, base: str, title: str, body: str, draft: bool
    ) -> dict[str, Any] | None:
        if any(pull["branch"] == branch for pull in self.forge.open):
            return None
        made = {
            "number": len(self.forge.pulls) + 1,
            "branch": branch,
            "base": base,
            "title": title,
            "body": body,
            "draft": draft,
            "open": True,
        }
        self.forge.pulls.append(made)
        return made

    def _as_github(self, pull: dict[str, Any]) -> dict[str, Any]:
        api, owner = (
            f"{self.forge.url}/repos/{PROJECT}/pulls/{pull['number']}",
            PROJECT.partition("/")[0],
        )
        return {
            "url": api, "html_url": f"{self.forge.url}/{PROJECT}/pull/{pull['number']}",
            "number": pull["number"], "state": "open",
            "title": pull["title"], "body": pull["body"], "draft": pull["draft"],
            "head": {"ref": pull["branch"], "label": f"{owner}:{pull['branch']}"},
            "base": {"ref": pull["base"]},
        }  # fmt: skip

    def _as_gitlab(self, pull: dict[str, Any]) -> dict[str, Any]:
        return {
            "iid": pull["number"],
            "web_url": f"{self.forge.url}/{PROJECT}/-/merge_requests/{pull['number']}",
            "title": pull["title"],
            "description": pull["body"], "source_branch": pull["branch"],
            "target_branch": pull["base"], "state": "opened",
            "source_project_id": 7, "target_project_id": 7,
        }  # fmt: skip

    def _git(self, path: str, body: bytes) -> None:
        given = (self.headers.get("Authorization") or "").removeprefix("Basic ")
        if base64.b64decode(given).decode().partition(":")[2] != TOKEN:
            return self._answer(401, {}, {"WWW-Authenticate": 'Basic realm="forge"'})
        if self.forge.git_status:
            return self._answer(self.forge.git_status, {})
        environment = {
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(self.forge.repositories),
            "GIT_HTTP_EXPORT_ALL": "1",
            "HOME": "/nonexistent",
            "PATH_INFO": path, "QUERY_STRING": urlsplit(self.path).query,
            "REQUEST_METHOD": self.command, "REMOTE_USER": "ada",
            "CONTENT_TYPE": self.headers.get("Content-Type", ""), "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": "http.receivepack",
            "GIT_CONFIG_VALUE_0": "true", "GIT_CONFIG_KEY_1": "safe.directory",
            "GIT_CONFIG_VALUE_1": "*",
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }  # fmt: skip
        done = subprocess.run(
            ["git", "http-backend"], input=body, capture_output=True, env=environment, check=False
        )
        head, _, sent = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(headers.pop("Status", "200 OK").split()[0]))
        for name, text in {**headers, "Content-Length": str(len(sent))}.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(sent)
        return None
