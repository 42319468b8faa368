"""People at all doors, who answer every question they are told of as fast as they can.

A door is a `Client` that says how an answer is given there; who adds one adds it to `DOORS`.
"""

from __future__ import annotations

import http.client
import json
import queue
import random
import re
import socket
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from http.cookies import SimpleCookie
from urllib.parse import urlencode

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.sync.client import connect

from tests.servers.stack import Stack

PASSWORD = "a long password of the chaos run"
WEIGHTS = {"approve": 80, "revise": 16, "cancel": 4}


@dataclass(frozen=True)
class Question:
    pause: str
    order: str
    revision: int


@dataclass(frozen=True)
class Answer:
    """What a client was told."""

    question: Question
    action: str
    user: str
    door: str
    verdict: str
    """taken, refused, unreachable, or a status that it should not have been."""
    began: float
    ended: float


class Client(threading.Thread, ABC):
    door = ""
    """As a decision's `via` names it."""

    def __init__(
        self, stack: Stack, user: str, token: str, dice: random.Random, heard: list[Answer]
    ) -> None:
        super().__init__(daemon=True)
        self.stack, self.user, self.token, self.dice, self.heard = stack, user, token, dice, heard
        self.inbox: queue.SimpleQueue[Question | None] = queue.SimpleQueue()

    def run(self) -> None:
        while (question := self.inbox.get()) is not None:
            action = self.dice.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            if action == "revise" and question.revision > 2:
                action = "approve"
            began = time.monotonic()
            try:
                verdict = self.give(question, action)
            except (OSError, http.client.HTTPException):
                verdict = "unreachable"
            self.heard.append(
                Answer(question, action, self.user, self.door, verdict, began, time.monotonic())
            )

    def open(self) -> None:
        """Come to the door."""

    @abstractmethod
    def give(self, question: Question, action: str) -> str:
        """Answer, and give the verdict.

        May raise OSError or HTTPException: then it was unreachable.
        """

    def close(self) -> None:
        """Leave it."""

    def request(
        self, method: str, path: str, body: str | None, headers: dict[str, str]
    ) -> tuple[int, http.client.HTTPMessage, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.stack.port, timeout=30)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, response.headers, response.read().decode(errors="replace")
        finally:
            connection.close()


class RestClient(Client):
    door = "rest"

    def give(self, question: Question, action: str) -> str:
        body = json.dumps({"decision": action, "feedback": "again", "revision": question.revision})
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        status, _, _ = self.request(
            "POST", f"/api/v1/pauses/{question.pause}/decisions", body, headers
        )
        return {201: "taken", 409: "refused"}.get(status, str(status))


class PageClient(Client):
    """A browser without JavaScript."""

    door = "page"

    def open(self) -> None:
        _, headers, page = self.request("GET", "/login", None, {})
        match = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        assert match, page[:500]
        form = {"username": self.user, "password": PASSWORD, "csrfmiddlewaretoken": match[1]}
        sent = {
            "Cookie": self._cookies(headers),
            "Content-Type": "application/x-www-form-urlencoded",
        }
        status, headers, page = self.request("POST", "/login", urlencode(form), sent)
        assert status == 302, (status, page[:500])
        self.cookies = self._cookies(headers)
        self.csrf = SimpleCookie(self.cookies)["csrftoken"].value

    def _cookies(self, headers: http.client.HTTPMessage) -> str:
        cookies: SimpleCookie = SimpleCookie()
        for header in headers.get_all("Set-Cookie") or []:
            cookies.load(header)
        return "; ".join(f"{name}={morsel.value}" for name, morsel in cookies.items())

    def give(self, question: Question, action: str) -> str:
        form = {
            "action": action,
            "feedback": "again",
            "revision": str(question.revision),
            "csrfmiddlewaretoken": self.csrf,
        }
        headers = {"Cookie": self.cookies, "Content-Type": "application/x-www-form-urlencoded"}
        status, answer, _ = self.request(
            "POST", f"/pauses/{question.pause}/decide", urlencode(form), headers
        )
        if status == 302:
            return "taken" if "/login" not in (answer["Location"] or "") else "302 to the login"
        return {409: "refused"}.get(status, str(status))


GIVEN_UP = 20
"""Seconds of the wall clock after which Daphne ends a handshake, with a 403 that nobody meant: the
product accepts every socket at once and refuses over it. A machine that stood still for so long, or
whose clock was set, is met by that.
"""


class SocketClient(Client):
    """Opens a socket for each answer, so that an outage is met in the middle of all of it."""

    door = "socket"

    def give(self, question: Question, action: str) -> str:
        message = {
            "type": "decision",
            "id": question.pause,
            "pause_id": question.pause,
            "decision": action,
        }
        headers = {"Authorization": f"Bearer {self.token}"}
        began = time.time()
        try:
            with connect(
                f"ws://127.0.0.1:{self.stack.port}/ws/inbox",
                additional_headers=headers,
                open_timeout=30,
                proxy=None,
            ) as socket:
                socket.send(
                    json.dumps({**message, "feedback": "again", "revision": question.revision})
                )
                reply = json.loads(socket.recv(timeout=30))
                while reply.get("id") != question.pause:
                    reply = json.loads(socket.recv(timeout=30))
        except InvalidStatus as error:
            if abs(time.time() - began) >= GIVEN_UP:
                raise ConnectionError(str(error)) from error
            return str(error.response.status_code)
        except (ConnectionClosed, InvalidHandshake) as error:
            raise ConnectionError(str(error)) from error
        status = 201 if reply["type"] == "accepted" else reply["problem"]["status"]
        return {201: "taken", 409: "refused"}.get(status, str(status))


BEGINS = 60
"""Seconds in which a shell is there."""


class ShellClient(Client):
    door = "command"

    def open(self) -> None:
        place = self.stack.folder / f"{self.name}.shell"
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(str(place))
            door.listen()
            self.shell = self.stack.start("shell", "-m", "bench.chaos.shell", str(place))
            door.settimeout(BEGINS)
            with door.accept()[0] as shell:
                shell.settimeout(None)
                self.lines = shell.makefile("rw")

    def give(self, question: Question, action: str) -> str:
        words = [self.user, action, question.order, question.pause, question.revision]
        print(*words, file=self.lines, flush=True)
        return (self.lines.readline().split() or ["the shell ended"])[0]

    def close(self) -> None:
        self.stack.kill(self.shell)
        self.lines.close()


DOORS: tuple[type[Client], ...] = (
    *(RestClient, PageClient, SocketClient, ShellClient, RestClient),
    *(PageClient, RestClient, SocketClient, PageClient, SocketClient),
)
"""At which door the n-th client stands, and so on again from the first."""
