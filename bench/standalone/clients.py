"""`python -m bench.standalone.clients` with its wish as JSON on stdin: makes the database with its
one person, or looks at pages as several browsers; says what came of it as JSON.
"""

from __future__ import annotations

import http.client
import json
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

EVERY = 1.0
"""Seconds between two pages of a browser."""


def prepare(wish: dict[str, Any]) -> dict[str, Any]:
    """The database, its templates and one person, with so many `questions` that wait for her; gives
    her session and her token.
    """
    import django

    django.setup()
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.test import Client

    from bench import workload
    from bench.standalone import mixed
    from hitl.models import ApiToken

    call_command("migrate", verbosity=0)
    workload.load()
    user = User.objects.create_user("bench")
    mixed.make(wish.get("questions", 0), user)
    client = Client()
    client.force_login(user)
    return {
        "session": client.cookies["sessionid"].value,
        "token": ApiToken.make(user, name="bench")[1],
    }


class Browser(threading.Thread):
    """One page after the other, and the events of one order beside them."""

    def __init__(self, wish: dict[str, Any], number: int) -> None:
        super().__init__(daemon=True)
        self.port, self.cookie, self.number = wish["port"], wish["session"], number
        self.over = Path(wish["folder"]) / "over"
        self.pages: list[float] = []
        self.failed = self.events = 0

    def run(self) -> None:
        time.sleep(EVERY * self.number / 5)  # browsers do not ask at the same moment
        order = ""
        while not self.over.exists():
            for path in ("/", "/work-orders/", order, "/threads/"):
                if path and not self.over.exists():
                    began = time.perf_counter()
                    text = self._get(path)
                    self.pages.append((time.perf_counter() - began) * 1000)
                    if not order and (found := re.search(r"/work-orders/wo_\w+/", text)):
                        order = found[0]
                        threading.Thread(target=self._follow, args=[order], daemon=True).start()
                    time.sleep(EVERY)  # its reader reads

    def _get(self, path: str) -> str:
        connection = self._asked(path)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        self.failed += answer.status != 200
        return text

    def _asked(self, path: str) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", path, headers={"Cookie": f"sessionid={self.cookie}"})
        return connection

    def _follow(self, order: str) -> None:
        answer = self._asked(f"/api/v1{order}logs/stream").getresponse()
        self.failed += answer.status not in {200, 204}
        while not self.over.exists() and (line := answer.readline()):
            self.events += line.startswith(b"data: ")


def browse(wish: dict[str, Any]) -> dict[str, Any]:
    browsers = [Browser(wish, number) for number in range(wish["browsers"])]
    for browser in browsers:
        browser.start()
    for browser in browsers:
        browser.join()
    return {
        "pages": [taken for browser in browsers for taken in browser.pages],
        "failed": sum(browser.failed for browser in browsers),
        "events": sum(browser.events for browser in browsers),
    }


if __name__ == "__main__":
    wish = json.loads(sys.stdin.read())
    print(json.dumps({"prepare": prepare, "browse": browse}[wish["do"]](wish)))
