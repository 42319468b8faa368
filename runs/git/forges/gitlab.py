"""GitLab, its own service or anybody's, through python-gitlab."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from runs.git.forges.places import ForgeRepository
from runs.git.forges.proposing import Exists, Found, failure
from runs.workflows.base import PullRequestDraft

if TYPE_CHECKING:
    from gitlab.v4.objects import Project

Result = TypeVar("Result")
DRAFT = "Draft: "
"""What the title of a merge request begins with that is not ready."""
ONCE = {"obey_rate_limit": False}
"""Its client would sleep and try again; that is the step's retry policy, which holds no worker."""


def connect(place: ForgeRepository) -> GitLab:
    return GitLab(place)


class GitLab:
    """Implements `runs.git.forges.proposing.Forge`."""

    def __init__(self, place: ForgeRepository) -> None:
        import gitlab
        import requests

        self._place = place
        self._headers: Mapping[str, str] = {}
        session = requests.Session()
        session.max_redirects = 0  # an allowed host must not send the token on to one that is not
        session.hooks["response"].append(self._remember)
        self._client = gitlab.Gitlab(
            place.url,
            private_token=place.token,
            timeout=place.seconds,
            user_agent="Waystation",
            retry_transient_errors=False,
            keep_base_url=True,
            session=session,
        )

    def find(self, branch: str) -> Found | None:
        def look() -> Found | None:
            project = self._project(lazy=True)
            requests = project.mergerequests.list(
                state="opened", source_branch=branch, get_all=False, **ONCE
            )
            own = (
                request
                for request in requests
                if request.source_branch == branch
                and request.source_project_id == request.target_project_id
            )
            return next(map(_found, own), None)

        return self._asked(look)

    def create(self, wanted: PullRequestDraft) -> Found:
        def make() -> Found:
            project = self._project(lazy=bool(wanted.base))
            fields = {
                "source_branch": wanted.branch,
                "target_branch": wanted.base or project.default_branch,
                "title": DRAFT + wanted.title if wanted.draft else wanted.title,
                "description": wanted.body,
            }
            return _found(project.mergerequests.create(fields, **ONCE))

        return self._asked(make)

    def update(self, found: Found, wanted: PullRequestDraft) -> None:
        """Whether it is a draft stays as people left it."""
        title = DRAFT + wanted.title if found.title.startswith(DRAFT) else wanted.title
        if (found.title, found.body) == (title, wanted.body):
            return

        def edit() -> None:
            self._project(lazy=True).mergerequests.update(
                found.number, {"title": title, "description": wanted.body}, **ONCE
            )

        self._asked(edit)

    def _project(self, *, lazy: bool) -> Project:
        return self._client.projects.get(self._place.project, lazy=lazy, **({} if lazy else ONCE))

    def _remember(self, response: Any, **_: Any) -> None:
        """Its errors carry no headers."""
        self._headers = response.headers

    def _asked(self, ask: Callable[[], Result]) -> Result:
        from gitlab import GitlabError, GitlabParsingError
        from requests import RequestException, TooManyRedirects

        try:
            return ask()
        except GitlabParsingError:
            raise failure(self._place, 502, "its answer was not understood") from None
        except GitlabError as error:
            message = _said(error.error_message)
            if error.response_code == 409 and "already exists" in message:
                raise Exists from error
            raise failure(self._place, error.response_code or 502, message, self._headers) from None
        except TooManyRedirects:
            raise failure(
                self._place, 302, "it sends on to another address; name that one as the forge's"
            ) from None
        except RequestException as error:
            raise failure(self._place, 0, f"{type(error).__name__}: {error}") from None
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise failure(
                self._place, 502, f"its answer was not understood ({type(error).__name__})"
            ) from None


def _found(merge_request: Any) -> Found:
    return Found(
        number=int(merge_request.iid),
        url=str(merge_request.web_url),
        title=str(merge_request.title),
        body=str(merge_request.description or ""),
    )


def _said(message: object) -> str:
    """A text, or `{"base": ["…"]}`, or a list, as one line."""
    if isinstance(message, bytes):
        return message.decode(errors="replace")
    if isinstance(message, dict):
        return "; ".join(f"{name}: {_said(text)}" for name, text in message.items())
    return ": ".join(map(_said, message)) if isinstance(message, list) else str(message)
