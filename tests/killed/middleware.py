"""A server that is killed with `kill -9` where a request's header says: middleware that stands
right before the views.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from django.db import connection
from django.http import HttpRequest, HttpResponse

HEADER = "X-Dies"


def middleware(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def inside(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        done = execute(sql, params, many, context)
        if re.search(r'INSERT INTO "?runs_workorder\b', sql):  # one of several that go together
            die()
        return done

    def handle(request: HttpRequest) -> HttpResponse:
        where = request.headers.get(HEADER)
        with connection.execute_wrapper(inside) if where == "before the commit" else nullcontext():
            response = get_response(request)
        if where == "after the commit":
            die()
        return response

    return handle
