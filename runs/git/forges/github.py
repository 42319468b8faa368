"""GitHub and its own servers, through PyGithub."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from runs.git.forges.places import ForgeRepository
from runs.git.forges.proposing import Exists, Found, failure
from runs.workflows.base import PullRequestDraft

if TYPE_CHECKING:
    from github.PullRequest import PullRequest
    from github.Repository import Repository

Result = TypeVar("Result")


def connect(place: ForgeRepository) -> GitHub:
    return GitHub(place)


class GitHub:
    """Implements `runs.git.forges.proposing.Forge`.

    It tries nothing twice: that is the step's retry policy, which holds no worker.
    """

    def __init__(self, place: ForgeRepository) -> None:
        from github import Auth, Github

        self._place = place
        self._client = Github(
            auth=Auth.Token(place.token),
            base_url=place.url,
            timeout=max(1, round(place.seconds)),
            user_agent="Waystation",
            retry=None,
            seconds_between_requests=None,
            seconds_between_writes=None,
            lazy=True,
        )

    def find(self, branch: str) -> Found | None:
        label = f"{self._place.project.partition('/')[0]}:{branch}"

        def look() -> Found | None:
            pulls = self._repository().get_pulls(state="open", head=label)
            # a forge that does not know the filter gives all of them
            return next(
                (_found(pull) for pull in pulls if pull.head.label.lower() == label.lower()), None
            )

        return self._asked(look)

    def create(self, wanted: PullRequestDraft) -> Found:
        def make() -> Found:
            repository = self._repository()
            base = wanted.base or repository.default_branch
            return _found(
                repository.create_pull(
                    base=base,
                    head=wanted.branch,
                    title=wanted.title,
                    body=wanted.body,
                    draft=wanted.draft,
                )
            )

        return self._asked(make)

    def update(self, found: Found, wanted: PullRequestDraft) -> None:
        if (found.title, found.body) == (wanted.title, wanted.body):
            return

        def edit() -> None:
            self._repository().get_pull(found.number).edit(title=wanted.title, body=wanted.body)

        self._asked(edit)

    def _repository(self) -> Repository:
        """Asked for only where something of it is wanted that is not known."""
        return self._client.get_repo(self._place.project)

    def _asked(self, ask: Callable[[], Result]) -> Result:
        from github import BadAttributeException, GithubException
        from requests import RequestException

        try:
            return ask()
        except GithubException as error:
            message = _said(error.data, error.message)
            if error.status == 422 and "already exists" in message:
                raise Exists from error
            # what it came from may hold the request
            raise failure(self._place, error.status, message, error.headers) from None
        except RequestException as error:
            raise failure(self._place, 0, f"{type(error).__name__}: {error}") from None
        except (
            BadAttributeException,
            AssertionError,
            AttributeError,
            KeyError,
            RuntimeError,
            TypeError,
            ValueError,
        ) as error:
            # its client asserts what the answer is like, and takes no redirect to another host
            raise failure(
                self._place, 502, f"its answer was not understood ({type(error).__name__})"
            ) from None


def _found(pull: PullRequest) -> Found:
    return Found(number=pull.number, url=pull.html_url, title=pull.title, body=pull.body or "")


def _said(data: object, message: str | None) -> str:
    """`{"message": "Validation Failed", "errors": [{"message": …}]}` as one line."""
    if not isinstance(data, dict):
        return message or str(data or "")
    errors = data.get("errors")
    more = [
        str(error.get("message") or error.get("code") or "")
        if isinstance(error, dict)
        else str(error)
        for error in errors or []
    ]
    return ": ".join(filter(None, [str(data.get("message") or message or ""), *more]))
