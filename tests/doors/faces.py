"""What a page or a request costs, counted where no machine's noise reaches: calls of functions, and
queries.
"""

from __future__ import annotations

import cProfile
import gc
import pstats
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from checkpoints.models import Thread
from hitl.decisions import claims
from hitl.models import ApiToken
from runs import services
from runs.models import Pause, WorkOrder

WARM = 2


@dataclass(frozen=True, kw_only=True)
class Cost:
    calls: int
    queries: int
    bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class Face:
    """Something that people or programs ask for; `act` asks once, and may be called again."""

    name: str
    bar: Cost
    act: Callable[[], Any]


def faces(reader: User, root: User, order: WorkOrder, template: str) -> Iterator[Face]:
    """What a reader who sees fifty open questions and more asks for.

    Args:
        order: theirs, and waiting.
        template: of new orders.
    """
    own, admin = _browser(reader), _browser(root)
    token = {"authorization": f"Bearer {ApiToken.make(reader, name='faces')[1]}"}
    pause = Pause.objects.get(run__work_order=order, status="open")
    open_ones = Pause.objects.open().visible_to(reader).exclude(pk=pause.pk).order_by("pk")
    to_answer = iter(list(open_ones[: WARM + 2]))

    def got(
        path: str, client: Client = own, *, headers: dict[str, str] | None = None
    ) -> Callable[[], Any]:
        return lambda: client.get(path, headers=headers)

    def posted(path: str, **body: Any) -> Any:
        return own.post(f"/api/v1/{path}", body, "application/json", headers=token)

    def answered() -> Any:
        return posted(f"pauses/{next(to_answer).shown_id}/decisions", decision="approve")

    def submitted() -> None:
        services.submit(template, by=reader)

    worked = services.submit(template, by=reader)  # which no worker takes up
    at_work = f"/work-orders/{worked.shown_id}/"
    page, changed_row = (
        f"/work-orders/{order.shown_id}/",
        f"/rows?kind=approval&ids={pause.shown_id}",
    )
    # an open page says which version it has, and is brought what changed since: here a claim that
    # came and went, so that all else is as it was
    look = f"{page}?live"
    seen = {"if-none-match": own.get(look)["ETag"]}
    claims.claim(pause.pk, by=reader)
    claims.release(pause.pk, by=reader)
    newest = {"if-none-match": own.get(look)["ETag"]}
    for name, calls, queries, act in (
        ("an empty request", 1_800, 1, got("/favicon.ico")),
        ("inbox", 80_000, 9, got("/")),
        ("a changed row of an inbox with filters", 6_000, 4, got(changed_row)),
        ("order page", 60_000, 14, got(page)),
        ("order page with a question, looked at again", 10_000, 6, got(look, headers=seen)),
        ("order page with a question, nothing new", 10_000, 6, got(look, headers=newest)),
        ("order page with a question, all of it again", 60_000, 14, got(look)),
        ("order at work, looked at again", 10_000, 6, got(f"{at_work}?live=work")),
        ("thread page", 60_000, 14, got(f"/threads/{own_thread(reader).shown_id}/")),
        ("list of orders", 60_000, 9, got("/work-orders/")),
        ("REST, open questions", 35_000, 6, got("/api/v1/pauses?open=1", headers=token)),
        ("REST, one question", 9_000, 5, got(f"/api/v1/pauses/{pause.shown_id}", headers=token)),
        ("REST, one order", 8_000, 3, got(f"/api/v1/work-orders/{order.shown_id}", headers=token)),
        ("POST an order", 14_000, 10, lambda: posted("work-orders", template=template)),
        ("an order alone", 7_000, 9, submitted),
        ("POST a decision", 12_000, 8, answered),
        ("admin, checkpoints", 90_000, 3, got("/admin/checkpoints/checkpoint/", admin)),
    ):
        yield Face(name=name, bar=Cost(calls=calls, queries=queries), act=act)


def own_thread(reader: User) -> Thread:
    """A thread that they see, of no order, whose run waits for an answer."""
    theirs = Thread.objects.visible_to(reader).filter(work_order=None)
    return theirs.filter(runs__pauses__status="open").latest("pk")


def counted(face: Face) -> Cost:
    """What one turn costs, behind some that fill what is kept for all."""
    for _ in range(WARM):
        _act(face)
    queries: list[str] = []

    def note(execute: Any, sql: str, *more: Any) -> Any:
        queries.append(sql)
        return execute(sql, *more)

    with connection.execute_wrapper(note):
        size = _act(face)
    profile = cProfile.Profile()
    gc.disable()  # what it finds to finish is nobody's call
    try:
        profile.enable()
        _act(face)
        profile.disable()
    finally:
        gc.enable()
    told: Any = pstats.Stats(profile)
    return Cost(calls=told.total_calls, queries=len(queries), bytes=size)


def _act(face: Face) -> int:
    response = face.act()
    assert response is None or response.status_code < 400, (face.name, response.content[:500])
    return 0 if response is None else len(response.content)


def _browser(user: User) -> Client:
    client = Client(headers={"host": "localhost"})
    client.force_login(user)
    return client
