"""The protocol over a WebSocket: commands go in, their answers and a thread's events come out.

The thread need not exist yet: clients choose its id, and begin with `run.start`. A socket is closed
with 4000 plus the status that HTTP would have (4401, 4403, 4429), or with 1011.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from contextlib import aclosing
from typing import Any

from pydantic import Field

from checkpoints.events import log
from checkpoints.events.log import Envelope
from extensions.langgraph.api import threads
from extensions.langgraph.api.calls import Call, Given, read
from extensions.langgraph.api.protocol import commands, following
from extensions.langgraph.api.protocol.commands import CommandIn, Malformed, Refused, envelope
from extensions.langgraph.api.protocol.following import Filter
from extensions.langgraph.api.streaming.frames import as_json
from hitl.decisions.services import NotFound
from hitl.http import incoming
from hitl.http.authentication import Caller
from hitl.http.refusals import exception_handler
from hitl.live import admission
from hitl.live.consumers import HEARD, THROTTLED, WITHIN, LiveConsumer, SocketRefused
from hitl.live.hub import hub
from hitl.live.pump import StreamRefused
from hitl.live.socket_messages import LONGEST
from hitl.live.topics import in_database_thread
from runs.security import scopes

logger = logging.getLogger(__name__)

MOST = 32
"""Most subscriptions of one socket."""


class UnsubscribeIn(Given):
    subscription_id: str


class ReconnectIn(Given):
    run_id: str = ""
    last_event_id: str = ""
    subscriptions: list[str] = Field(default=[], max_length=100)


class ProtocolConsumer(LiveConsumer):
    """One client on one thread."""

    def __init__(self) -> None:
        super().__init__(exception_handler)
        self.subscriptions: dict[str, Filter] = {}
        self.follows = False
        self.seq = 0
        """The number in the log up to which every subscription has been told everything."""
        self.telling = asyncio.Lock()

    def _caller(self) -> Caller:
        """Find the caller by token: a page of another origin would send a session's cookie too."""
        try:
            return admission.by_token(dict(self.scope), method="GET")
        except StreamRefused as refused:
            raise SocketRefused(4000 + refused.status, refused.code) from refused

    def may_stay(self, caller: Caller) -> bool:
        if not self.subscriptions:
            return True
        with scopes.acting(caller.scope, caller.token_key):
            return self._thread(caller) is not None

    async def pump(self) -> None:
        """Send nothing before a client subscribes."""

    async def _ping(self) -> None:
        """Send nothing: the protocol has no ping, and the server's own keeps the connection."""

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        now = time.monotonic()
        self.heard = [at for at in self.heard if at > now - WITHIN]
        self.heard.append(now)
        async with self.answering:
            await self._say(await self._answer(text_data, often=len(self.heard) > HEARD))

    async def _say(self, message: dict[str, Any]) -> None:
        await self.send(text_data=as_json(message))

    async def _answer(self, text: str | None, *, often: bool) -> dict[str, Any]:
        number = None
        try:
            command = _read(text)
            number = command.id
            if often:
                raise Refused("invalid_argument", str(THROTTLED["detail"]))
            if command.method in SUBSCRIPTIONS:
                result: dict[str, Any] = await SUBSCRIPTIONS[command.method](self, command)
                return {"type": "success", "id": number, "result": result}
            done: dict[str, Any] = await in_database_thread(self._obey)(command)
            return done
        except Malformed as error:
            return envelope(number, "invalid_argument", str(error))
        except Refused as refused:
            return envelope(number, refused.code, str(refused))
        except StreamRefused as refused:
            return envelope(number, "invalid_argument", refused.detail)
        except SocketRefused:
            raise
        # an error of any layer below: as over the other sockets, the client is told, and the
        # socket stays open
        except Exception as error:
            problem = await in_database_thread(exception_handler)(error, {})
            if problem is None:
                logger.exception("a command over a socket failed")
            words = "This did not work." if problem is None else str(problem.data["detail"])
            return envelope(number, "unknown_error", words)

    def _call(self, caller: Caller, data: Any = None) -> Call:
        names = {"thread_id": self.scope["url_route"]["kwargs"]["thread_id"]}
        return Call(by=caller.user, names=names, query={}, data=data)

    def _obey(self, command: CommandIn) -> dict[str, Any]:
        """Do what a command says, by the rights of its token now. Call in a database thread."""
        try:
            caller = self._caller()
        except SocketRefused as refused:
            return envelope(command.id, "permission_denied", str(refused.reason))
        with scopes.acting(caller.scope, caller.token_key):
            return commands.answer(self._call(caller), command)

    def _thread(self, caller: Caller) -> uuid.UUID | None:
        """Find the thread; None where this person does not see it."""
        try:
            return threads.find(self._call(caller)).pk
        except NotFound:
            return None

    def _find_readable(self) -> uuid.UUID:
        """Find the thread to follow. Raises Refused. Call in a database thread."""
        caller = self._caller()
        with scopes.acting(caller.scope, caller.token_key):
            try:
                scopes.check_read()
            except scopes.ScopeMissing as error:
                raise Refused("permission_denied", str(error)) from error
            thread = self._thread(caller)
        if thread is None:
            raise Refused("no_such_run", "There is no such thread. Begin with run.start.")
        return thread

    async def subscribe(self, command: CommandIn) -> dict[str, Any]:
        given = following.checked(read(Filter, command.params))
        if len(self.subscriptions) >= MOST:
            raise Refused("invalid_argument", f"A socket has up to {MOST} subscriptions.")
        thread = await in_database_thread(self._find_readable)()
        key = str(uuid.uuid4())
        async with self.telling:
            if not self.follows:
                self.follows, self.seq = True, given.begins_behind
                self._begin(self._follow(thread))
            await self._catch_up(thread, given)
            self.subscriptions[key] = given
        return {"subscription_id": key}

    async def _follow(self, thread: uuid.UUID) -> None:
        """Tell all subscriptions at once, in the order of the log: so no subscription hears of an
        end before another one has heard what came before that end.
        """
        async with aclosing(hub().pages(thread, self.seq)) as pages:
            async for page in pages:
                async with self.telling:
                    await self._tell(
                        thread, [event.event for event in page], [*self.subscriptions.values()]
                    )
                    self.seq = page[-1].seq

    async def _catch_up(self, thread: uuid.UUID, given: Filter) -> None:
        """Tell a new subscription what the others have been told."""
        seq, more = given.begins_behind, True
        while seq < self.seq and more:
            page = await in_database_thread(log.told_after)(thread, seq)
            more = bool(page)
            seq = page[-1]["seq"] if page else seq
            await self._tell(thread, [event for event in page if event["seq"] <= self.seq], [given])

    async def _tell(self, thread: uuid.UUID, page: list[Envelope], filters: list[Filter]) -> None:
        for event in await in_database_thread(following.told)(thread, page, filters):
            await self._say(event)

    async def unsubscribe(self, command: CommandIn) -> dict[str, Any]:
        given = read(UnsubscribeIn, command.params)
        if self.subscriptions.pop(given.subscription_id, None) is None:
            raise Refused("no_such_subscription", "There is no such subscription.")
        return {}

    async def reconnect(self, command: CommandIn) -> dict[str, Any]:
        """Say that nothing is kept of a closed socket: clients subscribe again, with `since`."""
        read(ReconnectIn, command.params)
        return {"restored": False}


def _read(text: str | None) -> CommandIn:
    if text is None or len(text) > LONGEST:
        raise Malformed(f"A command is a JSON text of up to {LONGEST} characters.")
    try:
        return commands.command_of(incoming.read(text))
    except incoming.UnreadableBody as error:
        raise Malformed(str(error)) from error


SUBSCRIPTIONS: dict[str, Any] = {
    "subscription.subscribe": ProtocolConsumer.subscribe,
    "subscription.unsubscribe": ProtocolConsumer.unsubscribe,
    "subscription.reconnect": ProtocolConsumer.reconnect,
}


PATH = r"^langgraph/threads/(?P<thread_id>[^/]+)/stream/events$"
