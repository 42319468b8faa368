"""The synchronous client, made by client/generate.py of `aio.py`: do not edit."""

from __future__ import annotations

import functools
import os
import time
import uuid
from collections.abc import Callable, Collection, Generator
from contextlib import closing
from typing import Any, ParamSpec, Self, TypeVar, Unpack
from urllib.parse import parse_qs, urlsplit

import httpx

from waystation_client import approvals, errors, questions, requests
from waystation_client.approvals import Call
from waystation_client.errors import Conflict, NotAnswered, Refused, TimedOut
from waystation_client.questions import Answer, Asking, Question, Rules
from waystation_client.requests import Request
from waystation_client.rest import models, operations
from waystation_client.stream import Event, Reader

P = ParamSpec("P")
T = TypeVar("T")

SILENCE = 45.0
"""Seconds without a byte after which a stream is lost: the server says something every 15."""
HEALTHY = 5.0
"""Seconds after which a connection was a good one, and the next try comes soon."""
LATE = 0.5
"""Seconds that a time-out may be late, which spares opening a stream anew for each byte."""
PATIENCE = 300.0
"""Seconds for which a stream is connected anew though no answer comes."""
LEAVING = 4
"""Tries to ask while the run is just leaving its last question."""
BREATH = 0.1
"""Seconds before another look, where a stream ended and told nothing that settles it."""
ENDED = {"completed", "failed"}


class Waystation:
    """One server, as one person's token lets it be used.

    Args:
        url: of the server; else the environment's WAYSTATION_URL.
        token: else the environment's WAYSTATION_TOKEN.
        timeout: seconds for one try of a request.
        attempts: how often a request is tried that got no answer. A request that changes something
            carries an `Idempotency-Key`, so that it is done once however often it is sent.
        http: your own client of httpx, with your proxies, certificates and hooks; you close it.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = 10.0,
        attempts: int = 4,
        http: httpx.Client | None = None,
    ) -> None:
        url = url or os.environ.get("WAYSTATION_URL")
        token = token or os.environ.get("WAYSTATION_TOKEN")
        if not url or not token:
            missing = "an address (WAYSTATION_URL)" if not url else "a token (WAYSTATION_TOKEN)"
            raise ValueError(f"Waystation needs {missing}.")
        self.url = url.rstrip("/")
        self._token = errors.checked(self.url, token.strip())
        self._timeout, self._attempts = timeout, max(1, attempts)
        self._own = http is None
        self._http = http or httpx.Client()

    def __repr__(self) -> str:
        shown = self._address("").copy_with(username=None, password=None)
        return f"{type(self).__name__}({str(shown)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; not those of a client of httpx that was handed in."""
        if self._own:
            self._http.close()

    # requests

    def send(self, request: Request[T], *, idempotency_key: str | None = None) -> T:
        """Send a request of `waystation_client.rest.operations`, again where that is safe."""
        headers = self._headers
        if request.method not in requests.SAFE:
            headers[requests.KEY] = idempotency_key or f"py-{uuid.uuid4()}"
        tried = 0
        while True:
            tried += 1
            try:
                response = self._http.request(
                    request.method,
                    self._address(request.path),
                    params=request.parameters,
                    json=request.body,
                    headers=headers,
                    timeout=self._timeout,
                    follow_redirects=False,
                )
            except (httpx.UnsupportedProtocol, httpx.LocalProtocolError) as error:
                raise errors.unreachable(error, self._address("")) from error
            except httpx.TransportError as error:
                if tried >= self._attempts:
                    raise errors.unreachable(error, self._address("")) from error
                told = None
            else:
                if response.is_success:
                    answer: T = self._told(response)
                    return answer
                refused = errors.problem_of(response)
                if tried >= self._attempts or not _may_pass(refused):
                    raise refused
                told = refused.retry_after if isinstance(refused, Refused) else None
            time.sleep(requests.delay(tried, told=told))

    def _told(self, response: httpx.Response) -> Any:
        if response.status_code == 204:
            return None
        try:
            return response.json()
        except ValueError:
            raise errors.NotWaystation(f"{self!r} answered with what is no JSON.") from None

    def _address(self, path: str) -> httpx.URL:
        return httpx.URL(f"{self.url}{path}")

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}", "User-Agent": "waystation-client"}

    # questions that a program asks

    def ask(self, question: str, **asking: Unpack[Asking]) -> Question:
        """Ask people. Each call asks anew, so that no answer is given twice.

        With a `key` the same words are the same question, answered or not, so that a program that
        was killed finds it: for `valid_for` seconds after its answer (3600, an hour, unless you say
        otherwise). An older answer is asked anew.
        """
        return self._ask(questions.wait_of(question, asking))

    def _ask(self, asked: models.WaitIn) -> Question:
        tried = 0
        while True:
            tried += 1
            try:
                return Question(asked, self.send(operations.open_wait(asked)))
            except Conflict as conflict:
                if conflict.code != "wait_open" or tried >= LEAVING:
                    raise
            time.sleep(requests.delay(tried))

    def look(self, question: Question) -> Question:
        """The same question as it stands now."""
        # not by the asker's own id, whose run may ask something else by now
        return Question(question.asked, self.send(operations.get_workflow(question.stream)))

    def wait(self, question: Question, timeout: float | None = None) -> Answer:
        """The answer, once there is one. Raises NotAnswered after `timeout` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        after = 0
        while (answer := question.answer) is None:
            if end is not None and time.monotonic() >= end:
                raise NotAnswered(question)
            with closing(self._follow(question.stream, after, end)) as events:
                for event in events:
                    after = event["seq"]
                    if event["event"] in questions.ENDS:
                        break
                else:
                    time.sleep(BREATH)
            question = self.look(question)
        return answer

    def withdraw(self, question: Question) -> None:
        """Take a question back: it is closed as cancelled."""
        self.send(operations.cancel_run(question.stream))

    # questions that a person answers

    def inbox(self, **words: object) -> Generator[models.PauseOut, None, None]:
        """The questions that wait for the token's person, newest first.

        Args:
            words: what the list is asked, such as `due="overdue"`, `q="invoice"`, `sort="due"`.
        """
        cursor: str | None = None
        while True:
            page = self.send(operations.list_pauses(open=True, cursor=cursor).asking(words))
            for pause in page["results"]:
                yield pause
            if (cursor := _cursor(page["next"])) is None:
                return

    def question(self, pause_id: str) -> models.PauseOut:
        """A question as a reviewer sees it."""
        return self.send(operations.get_pause(pause_id))

    def answer(
        self,
        seen: models.PauseOut,
        decision: str,
        *,
        feedback: str = "",
        data: Any = None,
        edited_content: str | None = None,
        stage: str = "",
    ) -> models.DecisionOut | models.VotedOut:
        """Answer what was seen: where it changed meanwhile, the answer is refused (Conflict)."""
        body: models.DecisionIn = {
            "decision": decision,
            "feedback": feedback,
            "revision": seen["revision"],
            "content_digest": seen["content_digest"],
            "pause_id": seen["id"],
        }
        if data is not None:
            body["input"] = data
        if edited_content is not None:
            body["edited_content"] = edited_content
        if stage:
            body["stage"] = stage
        return self.send(operations.decide(seen["id"], body))

    # work orders

    def start(
        self, *, idempotency_key: str | None = None, **order: Unpack[models.WorkOrderIn]
    ) -> models.WorkOrderOut:
        """Order work: `template`, `input` and what else `WorkOrderIn` has.

        With a key of your own the same order is made once, also by another process.
        """
        request = operations.create_work_order(order)
        return self.send(request, idempotency_key=idempotency_key)

    def order(self, order_id: str) -> models.WorkOrderOut:
        return self.send(operations.get_work_order(order_id))

    def orders(self) -> Generator[models.WorkOrderOut, None, None]:
        """The orders that the token's person sees, newest first."""
        cursor: str | None = None
        while True:
            page = self.send(operations.list_work_orders(cursor=cursor))
            for order in page["results"]:
                yield order
            if (cursor := _cursor(page["next"])) is None:
                return

    def cancel(self, order_id: str, reason: str = "") -> None:
        """End an order."""
        self.send(operations.cancel_work_order(order_id, {"reason": reason}))

    def finish(self, order_id: str, timeout: float | None = None) -> models.WorkOrderOut:
        """The order, once it has ended. Raises TimedOut after `timeout` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        after = 0
        while (order := self.order(order_id))["status"] not in ENDED:
            if end is not None and time.monotonic() >= end:
                raise TimedOut(f"{order_id} is {order['status']} still.")
            with closing(self._follow(order_id, after, end)) as events:
                for event in events:
                    after = event["seq"]
            time.sleep(BREATH)
        return order

    # events

    def events(self, name: str, *, after: int = 0) -> Generator[Event, None, None]:
        """What happens to an order, a run, a thread, or a run of yours, from the beginning.

        Connects anew by itself; no event is missed or told twice. Ends when an order or a run has
        ended. Raises Unreachable where the server does not answer for five minutes.
        """
        with closing(self._follow(name, after, None)) as events:
            for event in events:
                yield event

    def _follow(self, name: str, after: int, end: float | None) -> Generator[Event, None, None]:
        """The events until what is followed has ended, or `end` on the monotonic clock."""
        url = self._address(requests.address(questions.events_path(name), name))
        reader, tried, heard = Reader(after), 0, time.monotonic()
        while end is None or time.monotonic() < end:
            silence = SILENCE if end is None else min(SILENCE, max(end - time.monotonic(), 0.01))
            timeout = httpx.Timeout(self._timeout, read=silence)
            headers = {**self._headers, "Last-Event-ID": str(reader.seq)}
            told: float | None = None
            opened = time.monotonic()
            try:
                with self._http.stream(
                    "GET", url, headers=headers, timeout=timeout, follow_redirects=False
                ) as response:
                    if response.status_code == 204:
                        return
                    if response.status_code != 200:
                        response.read()
                        raise errors.problem_of(response)
                    if "text/event-stream" not in response.headers.get("content-type", ""):
                        raise errors.NotWaystation(f"{self!r} answered with what is no stream.")
                    reader.connected()
                    for chunk in response.iter_bytes():
                        heard = time.monotonic()
                        tried = 0 if heard - opened > HEALTHY else tried
                        for event in reader.feed(chunk):
                            tried = 0
                            yield event
                        if end is not None and time.monotonic() + silence > end + LATE:
                            told = 0.0  # connect again, and wait for a shorter silence
                            break
            except (httpx.UnsupportedProtocol, httpx.LocalProtocolError) as error:
                raise errors.unreachable(error, self._address("")) from error
            except httpx.TransportError as error:
                if time.monotonic() - heard > PATIENCE:
                    raise errors.unreachable(error, self._address("")) from error
            except Refused as refused:
                if not _may_pass(refused) or time.monotonic() - heard > PATIENCE:
                    raise
                told = refused.retry_after
            tried += 1
            pause = requests.delay(tried, told=told)
            left = pause if end is None else end - time.monotonic()
            time.sleep(max(0.0, min(pause, left)))

    # calls that people approve

    def requires_approval(
        self,
        *,
        question: str = "",
        name: str = "",
        unshown: Collection[str] = (),
        key: approvals.Key = "",
        valid_for: int | None = None,
        timeout: float | None = None,
        **rules: Unpack[Rules],
    ) -> Callable[[Callable[P, T]], Callable[P, T]]:
        """Let a function be called only once people have approved it with these very arguments.

        The call waits. It raises Denied where it was refused or nobody answered in time, and
        NotAnswered after `timeout` seconds; then nothing was called. Each call asks anew: an
        approval is used once.

        Args:
            question: what people are asked; else the function's name.
            name: what people are shown in place of the function's module and name.
            unshown: parameters that people are not shown, such as a connection. All others are
                plain JSON.
            key: makes the same call with the same key the same question, answered or not, in
                whatever process: so it is found after a crash. A text, or a function of the call's
                arguments that gives one, such as the number of a payment.
            valid_for: seconds for which the answer under a key is one (3600, an hour, unless you
                say otherwise); an older one is asked anew.
            timeout: seconds.
            rules: `reviewers`, `deadline` (an hour unless said), `review`, `team` and others.
        """
        approvals.check(rules, key, valid_for)

        def decorate(
            function: Callable[P, T],
        ) -> Callable[P, T]:
            @functools.wraps(function)
            def call(*args: P.args, **kwargs: P.kwargs) -> T:
                asked = Call.of(function, args, kwargs, name=name, unshown=unshown)
                wait = asked.asked(question, rules, key=key, valid_for=valid_for)
                answer = self.wait(self._ask(wait), timeout)
                if not answer.approved or answer.by is None:  # rules may approve; people did not
                    raise errors.Denied(asked.name, answer)
                arguments, named = asked.arguments()
                return function(*arguments, **named)

            return call

        return decorate


def _may_pass(error: Exception) -> bool:
    """Whether the same request may be answered otherwise in a moment."""
    return isinstance(error, Refused) and (
        error.status in requests.PASSING or error.code == requests.IN_PROGRESS
    )


def _cursor(following: str | None) -> str | None:
    """The place of the next page, of its address."""
    return parse_qs(urlsplit(following).query)["cursor"][0] if following else None
