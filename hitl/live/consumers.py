"""WebSockets: catch up, then follow, and take answers.

A reconnect is a plain connect with `?after=<seq>`. See docs/how-to/sockets.md.

Close codes: 1000 the run has ended and all of it was told; 4400 malformed address; 4401 not, or no
longer, logged in; 4403 no longer allowed; 4404 no such thing for you; 4408 this client does not
read; 4429 this person has too many open; 4503 the database does not answer. After 4408, 4503, and
any code below 4000, come back with the last number.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import uuid
from collections.abc import Callable, Collection, Coroutine, Iterable
from contextlib import aclosing, suppress
from typing import Any, TypeAlias
from urllib.parse import parse_qs

from channels.consumer import get_handler_name
from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer

from checkpoints import ids
from checkpoints.database import outages
from checkpoints.database.people import User
from checkpoints.models import EventKind
from hitl.http import languages
from hitl.http.authentication import SUBPROTOCOL, Caller, caller_of, unknown
from hitl.live import connections, subscriptions
from hitl.live.backpressure import Gone
from hitl.live.hub import cursor, hub
from hitl.live.inbox_feed import InboxNews, Teller
from hitl.live.outages import AWAY, Outage
from hitl.live.socket_messages import ProblemOf, SocketTarget, answer
from hitl.live.subscriptions import Subscription
from hitl.live.topics import in_database_thread
from hitl.live.work_feed import WorkKind, WorkWriter
from runs.models import Pause
from runs.security import scopes
from runs.security.scopes import Scope

logger = logging.getLogger(__name__)
Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

PING_EVERY = 25.0
RECHECK_EVERY = 30.0
"""Seconds after which a socket is closed whose person may not see it any more."""
HEARD, WITHIN = 100, 10.0
"""So many messages of one client are heard in so many seconds; the others are refused."""
NO_LAYER = "none"
"""The hub listens for all sockets of the process: a channel layer that fails must not reach one."""
THROTTLED = {
    "type": "about:blank",
    "title": "Too Many Requests",
    "status": 429,
    "code": "throttled",
    "detail": (
        f"More than {HEARD} messages in {WITHIN:.0f} seconds; this one was not heard, and "
        "nothing was changed."
    ),
}


class SocketRefused(Exception):
    """The connection is not served; `code` is the close code."""

    def __init__(self, code: int, reason: str = "") -> None:
        super().__init__(code)
        self.code, self.reason = code, reason or None


class LiveConsumer(AsyncWebsocketConsumer):
    """A socket whose tasks send for as long as it is open, and which answers each message of its
    client.
    """

    channel_layer_alias = NO_LAYER

    def __init__(self, problem_of: ProblemOf) -> None:
        super().__init__()
        self.problem_of = problem_of
        self.place = SocketTarget()
        self.tasks: set[asyncio.Task[None]] = set()
        self.timers: dict[Work, asyncio.TimerHandle] = {}
        self.heard: list[float] = []
        """When its last messages came."""
        self.answering = asyncio.Lock()
        self.person: int | None = None
        """Whose place it has."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Without the task per source that Channels waits in: there is one source, its client."""
        self.scope, self.base_send = scope, send
        try:
            with suppress(StopConsumer):
                while True:
                    await self.dispatch(await receive())
        finally:  # also where its client left before it got an answer: no `disconnect` comes then
            for timer in self.timers.values():
                timer.cancel()
            for task in self.tasks:
                task.cancel()
            if self.person is not None:
                connections.give_back(self.person)

    async def dispatch(self, message: dict[str, Any]) -> None:
        """Without Channels' look at database connections, a trip to another thread: every query
        here is made in the hub's threads.
        """
        await getattr(self, get_handler_name(message))(message)

    async def connect(self) -> None:
        # accepted first: a browser learns the close code only from a socket that was open
        await self.accept(
            subprotocol=SUBPROTOCOL if SUBPROTOCOL in self.scope.get("subprotocols", []) else None
        )
        try:
            person = await in_database_thread(self._admit)()
            if not connections.take(person):
                raise SocketRefused(4429)
            self.person = person
        except SocketRefused as refusal:
            await self.close(code=refusal.code, reason=refusal.reason)
            return
        except Exception as error:
            if not await self._told_away(error):
                raise
            return
        self._begin(self.pump())
        self._every(PING_EVERY, self._ping)
        self._every(RECHECK_EVERY, self._look_at_rights)

    def _admit(self) -> int:
        """Who it is."""
        caller = self._caller()
        self.enter(caller)
        return caller.user.pk

    def _caller(self) -> Caller:
        caller = caller_of(self.scope)
        if caller is None:
            # token_expired, or not_authenticated
            raise SocketRefused(4401, str(unknown(self.scope).get_codes()))
        return caller

    def enter(self, caller: Caller) -> None:
        """Check what this socket asks for; raises Refused. In a database thread."""

    def may_stay(self, caller: Caller) -> bool:
        """In a database thread."""
        return True

    async def pump(self) -> None:
        """Send until there is nothing more to come."""
        raise NotImplementedError

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._mind(work))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def _every(self, seconds: float, work: Work) -> None:
        """Meanwhile there is a timer alone: a task that sleeps takes ten times as much, and there
        are a thousand sockets.
        """

        async def once() -> None:
            await work()
            self._every(seconds, work)

        self.timers[work] = asyncio.get_running_loop().call_later(
            seconds, lambda: self._begin(once())
        )

    async def _ping(self) -> None:
        await self.send(text_data='{"type": "ping"}')

    async def _look_at_rights(self) -> None:
        await in_database_thread(self._recheck)()

    async def _mind(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except SocketRefused as refusal:
            await self.close(code=refusal.code, reason=refusal.reason)
        except Gone:
            pass  # `disconnect` comes
        except Exception as error:  # a task of its own: nobody else would notice
            if not await self._told_away(error):
                logger.exception("a socket fails")
                await self.close(code=1011)

    async def _told_away(self, error: Exception) -> bool:
        """Close with the reason where the database's trouble is the error; says whether it is."""
        outage = outages.said(error, changing=False)
        if outage is not None:
            logger.warning("a socket is closed for want of the database: %s", error)
            await self.close(code=AWAY, reason=outage.code)
        return outage is not None

    def _recheck(self) -> None:
        if not self.may_stay(self._caller()):
            raise SocketRefused(4403)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        now = time.monotonic()
        self.heard = [at for at in self.heard if at > now - WITHIN]
        if len(self.heard) == HEARD:
            await self.send(
                text_data=json.dumps({"type": "refused", "id": None, "problem": THROTTLED})
            )
            return
        self.heard.append(now)
        async with self.answering:
            reply = await in_database_thread(answer)(
                text_data, scope=self.scope, place=self.place, problem_of=self.problem_of
            )
            await self.send(text_data=reply)


class SubjectConsumer(LiveConsumer):
    """Sends the events of a thread or of a run after `?after=<seq>`, in order, each once."""

    subject: Subscription
    told_as_failed: Collection[str] = ()
    """Kinds of events behind which the same is told once more, as `run_failed`.

    Without a number: the log has it once.
    """

    def __init__(self, problem_of: ProblemOf) -> None:
        super().__init__(problem_of)
        self.follows = asyncio.Event()
        """Nothing that happens from then on is missed."""
        self.others, self.progress = 0, ""
        """What was told last beside the log: see `Hub.beside`."""

    def find(self, user: User) -> Subscription | None:
        """What the address names, where this person sees it. In a database thread."""
        raise NotImplementedError

    def enter(self, caller: Caller) -> None:
        if caller.scope == Scope.ANSWER:  # all that a thread holds is more than its questions
            raise SocketRefused(4403, scopes.ScopeMissing.code)
        try:
            self.seq = cursor(
                parse_qs(self.scope["query_string"].decode("latin-1")).get("after", ["0"])[0]
            )
        except ValueError as error:
            raise SocketRefused(4400) from error
        subject = self.find(caller.user)
        if subject is None or not caller.may_follow(subject.thread_id):
            raise SocketRefused(4404)
        self.subject = subject
        self.place = SocketTarget(subject.thread_id, subject.run_id)

    def may_stay(self, caller: Caller) -> bool:
        return self.subject.is_visible(caller.user) and caller.may_follow(self.subject.thread_id)

    async def connect(self) -> None:
        await super().connect()
        if self.tasks:
            # its messages wait: who is told who else is there hears of whoever comes later
            await self.follows.wait()

    async def pump(self) -> None:
        try:
            await self._pump()
        finally:
            self.follows.set()  # else its messages, and its end, would wait for ever

    async def _pump(self) -> None:
        send: Any = self.base_send  # `self.send` is two calls more for each event
        self.others = hub().beside(self.subject.thread_id)[0]
        # a generator, typed as an iterator
        async with aclosing(subscriptions.pages(self.subject, self.seq, stirs=True)) as pages:
            async for page in pages:
                for event in page.told:
                    await send({"type": "websocket.send", "text": event.text})
                    if event.event["event"] in self.told_as_failed:
                        again = {**event.event, "event": EventKind.RUN_FAILED}
                        del again["seq"]
                        await send({"type": "websocket.send", "text": json.dumps(again)})
                if page.outage is not None:
                    await send({"type": "websocket.send", "text": page.outage.message})
                if page.stirred:
                    await self._tell_beside(send)
                    self.follows.set()
                if page.told:
                    self.note_sent(page.told[-1].seq)
        # who answered last may be the one who ended it, or the one who came too late
        async with self.answering:
            await self.close(code=1000)

    async def _tell_beside(self, send: Any) -> None:
        """Tell what changed beside the log."""
        others, progress = hub().beside(self.subject.thread_id)
        if progress != self.progress:
            await send({"type": "websocket.send", "text": progress})
        if others != self.others and self.follows.is_set():
            # who it is, a client is told when it says the same of itself
            await send({"type": "websocket.send", "text": '{"type": "presence"}'})
        self.others, self.progress = others, progress

    def note_sent(self, seq: int) -> None:
        """Events were sent, up to this number."""


class ThreadConsumer(SubjectConsumer):
    """The events of a thread; with `&page` its order's page while it works, too: what changed of
    it, written once for all to whom it is the same.
    """

    def __init__(self, problem_of: ProblemOf, writer: WorkWriter | None = None) -> None:
        super().__init__(problem_of)
        self.writer = writer
        self.kind: WorkKind | None = None
        self.seq_told = 0
        self.more = asyncio.Event()
        self.brings = False

    def find(self, user: User) -> Subscription | None:
        return subscriptions.find_thread(user, self.scope["url_route"]["kwargs"]["thread_id"])

    def enter(self, caller: Caller) -> None:
        super().enter(caller)
        self._stand(caller)

    def may_stay(self, caller: Caller) -> bool:
        self._stand(caller)
        return super().may_stay(caller)

    def _stand(self, caller: Caller) -> None:
        if self.writer is not None and b"page" in self.scope["query_string"].split(b"&"):
            language = languages.language_of_socket(self.scope)
            self.kind = self.writer.kind_of(caller.user, self.subject.thread_id, language)

    async def pump(self) -> None:
        if self.kind is not None:  # so that the page fetches nothing behind the first event
            await self.send(text_data='{"type": "work", "html": ""}')
        await super().pump()

    def note_sent(self, seq: int) -> None:
        self.seq_told = seq
        self.more.set()
        if self.kind is not None and not self.brings:
            self.brings = True
            self._begin(self._bring())

    async def _bring(self) -> None:
        """Behind what was told, the page that shows it."""
        version = 0
        while True:
            await self.more.wait()
            self.more.clear()
            version, html = await self._news(version)
            if html != "":
                await self.send(text_data=json.dumps({"type": "work", "html": html}))

    async def _news(self, version: int) -> tuple[int, str | None]:
        if self.kind is None or self.writer is None:  # not any more
            return version, None
        try:
            return await hub().work.news(
                self.kind,
                self.writer,
                seq=self.seq_told,
                version=version,
                watchers=hub().watching(self.subject.thread_id),
            )
        # databases raise their clients' own errors; the page fetches what is its own
        except Exception as error:  # noqa: BLE001
            logger.warning("could not write an order's page: %s", error)
            return version, None


class RunConsumer(SubjectConsumer):
    def find(self, user: User) -> Subscription | None:
        return subscriptions.find_run(user, self.scope["url_route"]["kwargs"]["run_id"])


class ChatRunConsumer(RunConsumer):
    """A run, for a chat client that knows two endings: one that was rejected, or that nobody
    answered, would be waited for without end.
    """

    told_as_failed = (EventKind.RUN_CANCELLED, EventKind.RUN_EXPIRED)


class WorkflowConsumer(SubjectConsumer):
    def find(self, user: User) -> Subscription | None:
        return subscriptions.find_named(user, self.scope["url_route"]["kwargs"]["run_id"])


class InboxConsumer(LiveConsumer):
    """Sends which questions wait for this person, now and whenever other ones wait; with `?page`
    also their rows, in the page's language.
    """

    user_id: int

    def __init__(self, problem_of: ProblemOf, tell: Teller | None = None) -> None:
        super().__init__(problem_of)
        self.tell = tell

    def enter(self, caller: Caller) -> None:
        if caller.scope == Scope.ASK:  # what waits for its person is not its own
            raise SocketRefused(4403, scopes.ScopeMissing.code)
        self.user_id = caller.user.pk

    async def pump(self) -> None:
        is_page = self.scope["query_string"] == b"page"
        language = languages.language_of_socket(self.scope) if is_page else ""
        async with aclosing(
            hub().waiting(self.user_id, language=language, tell=self.tell)
        ) as pages:
            async for news in pages:
                if isinstance(news, Outage):
                    await self.send(text_data=news.message)
                else:
                    await self.send(text_data=json.dumps(_message(news, is_page=is_page)))


def _message(news: InboxNews, *, is_page: bool) -> dict[str, Any]:
    message: dict[str, Any] = {
        "type": "inbox",
        "waiting": news.number,
        "gone": _shown(news.gone),
        "new": _shown(news.new),
        "changed": _shown(news.changed),
    }
    if is_page and news.first is not None:
        message["first"] = [
            [ids.show(Pause.PREFIX, key), changed_at.isoformat()] for key, changed_at in news.first
        ]
    if is_page and news.html:
        message["html"] = {ids.show(Pause.PREFIX, key): text for key, text in news.html.items()}
        message["past"] = _shown(news.past)
    return message


def _shown(keys: Iterable[uuid.UUID]) -> list[str]:
    return [ids.show(Pause.PREFIX, key) for key in keys]


class NoSuchSocket(AsyncWebsocketConsumer):
    """Every other address."""

    channel_layer_alias = NO_LAYER

    async def connect(self) -> None:
        await self.accept()
        await self.close(code=4404)
