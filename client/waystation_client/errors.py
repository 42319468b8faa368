"""What can go wrong, by what a program can do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from waystation_client.questions import Answer, Question


class WaystationError(Exception):
    """Everything that this package raises."""


class Unreachable(WaystationError):
    """No answer came. What was asked may have been done; the same question may be asked again."""


class TimedOut(Unreachable):
    """No answer came in time."""


class NotWaystation(WaystationError):
    """Something answered that is no Waystation: a proxy's page, a redirect, another program."""


class Refused(WaystationError):
    """The server answered with a problem document (RFC 9457)."""

    def __init__(self, problem: dict[str, Any], *, retry_after: float | None = None) -> None:
        self.problem = problem
        self.status = int(problem["status"])
        self.code = str(problem["code"])
        """Stable, for programs."""
        self.detail = str(problem["detail"])
        """What happened and what was kept, for people."""
        self.errors: dict[str, Any] = problem.get("errors") or {}
        """Field or parameter → what is wrong with it."""
        self.retry_after = retry_after
        super().__init__(f"{self.code}: {self.detail}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.problem, self.retry_after)


def _again(kind: type[Refused], problem: dict[str, Any], retry_after: float | None) -> Refused:
    return kind(problem, retry_after=retry_after)


class Invalid(Refused):
    """400, 413, 415, 422: it cannot be asked so; `errors` says why, by field."""


class Unauthorized(Refused):
    """401: the token is missing, wrong or expired."""


class Forbidden(Refused):
    """403: the token's scope, or its person's rights, do not allow it."""


class NotFound(Refused):
    """404, 410: there is nothing of this id, or none that the token's person may see."""


class Conflict(Refused):
    """409: it cannot be done as things stand: answered already, changed meanwhile."""


class TooMany(Refused):
    """429: too often, or too many; `retry_after` says when to ask again."""


class Unavailable(Refused):
    """5xx: the server, or what it stands on, cannot answer at the moment."""


class NotAnswered(WaystationError):
    """Nobody answered within the time-out. The question stays open: wait for it again."""

    def __init__(self, question: Question) -> None:
        self.question = question
        super().__init__(f"Nobody has answered {question.pause_id} yet; it stays open.")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.question,)


class Denied(WaystationError):
    """A call was not approved, so it was not made."""

    def __init__(self, name: str, answer: Answer) -> None:
        self.name, self.answer = name, answer
        nobody = answer.expired or (answer.approved and answer.by is None)
        by = f" by {answer.by}" if answer.by else ""
        why = "nobody answered in time" if nobody else f"{answer.decision}{by}"
        said = f": {answer.feedback}" if answer.feedback else ""
        super().__init__(f"{name} was not called: {why}{said}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.answer)


class WebhookInvalid(WaystationError):
    """A webhook is not what was sent, not by who may send it, or too old."""


KINDS: dict[int, type[Refused]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: NotFound,
    429: TooMany,
}


def checked(url: str, token: str) -> str:
    """The token. Raises ValueError for what can be no address and what can be no token; neither is
    repeated: both may hold secrets.
    """
    try:
        httpx.URL(url)
    except httpx.InvalidURL:
        raise ValueError("Waystation was given what is no address (WAYSTATION_URL).") from None
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError("Waystation was given what is no token (WAYSTATION_TOKEN).")
    return token


def problem_of(response: httpx.Response) -> WaystationError:
    """The error of an answer that is none of 2xx, whose body has been read."""
    status = response.status_code
    try:
        problem = response.json()
        kind = KINDS.get(status, Unavailable if status >= 500 else Invalid)
        return kind({**problem, "status": status}, retry_after=_seconds(response))
    except (ValueError, KeyError, TypeError):
        pass
    if status in {429, 502, 503, 504}:  # of a proxy before the server
        words = {"status": status, "code": f"http_{status}", "detail": response.reason_phrase}
        kind = TooMany if status == 429 else Unavailable
        return kind(words, retry_after=_seconds(response))
    return NotWaystation(
        f"{response.url.copy_with(username=None, password=None, query=None)} answered {status}"
        " without a problem document. Is this the address of a Waystation server?"
    )


def unreachable(error: httpx.TransportError, url: httpx.URL) -> Unreachable:
    """The error of a request that got no answer; names no header and no password."""
    where = url.copy_with(username=None, password=None, query=None)
    if isinstance(error, httpx.TimeoutException):
        return TimedOut(f"{where} did not answer in time ({type(error).__name__}).")
    return Unreachable(f"{where} could not be reached: {error or type(error).__name__}")


def _seconds(response: httpx.Response) -> float | None:
    told = response.headers.get("retry-after", "")
    return float(told) if told.isascii() and told.isdecimal() else None
