"""What a channel is: a service in which people are asked and answer, told in a few verbs.

A request comes in: `verify` says who signed it and what it holds, `person` who that is here, and
`take` what it answers; `decide` judges, and `tell` says what became of it. A question goes out by
`render`, `post` and `change`, or is answered from a mail or a chat that `invite` tells how. A
channel raises what stands here, and keeps nothing that the database does not hold.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from django.conf import settings
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from checkpoints.database.people import User
from hitl.channels import accounts
from hitl.decisions.services import Answer
from hitl.models.channels import Service
from hitl.models.outbound import Delivery
from hitl.rendering import markdown
from runs.models import Pause
from runs.security.ssrf import AddressRefused


class Unsigned(Exception):
    """Not signed by who may send it: nothing was read, and nothing was done."""

    code = "signature_invalid"


class Unreadable(Exception):
    """Signed, and nothing that this service sends: nothing was done."""

    code = "invalid"


@dataclass(frozen=True)
class SignedRequest:
    """A request as it came."""

    headers: Mapping[str, str]
    content_type: str
    body: bytes
    now: dt.datetime
    json: Callable[[], Any]
    """Reads the body as JSON, bounded in every way; raises Unreadable."""


@dataclass(frozen=True)
class Sender:
    """Whoever wrote or pressed, by the ids of their service; no name, since people choose those."""

    team: str
    """The workspace or tenant."""
    account: str


@dataclass(frozen=True)
class InboundMessage:
    """What a service handed over."""

    sender: Sender
    body: Any
    """The channel's own reading of it."""
    code: str | None = None
    """A code of `accounts.new_code`, where the message tells one."""
    key: str = ""
    """Names the message where its service delivers it again under the same name: then it gets the
    answer of the first time. "" where `decide` alone sees that it comes again.
    """


@dataclass(frozen=True)
class Given:
    """An answer to a question."""

    pause: Pause
    answer: Answer


@dataclass(frozen=True)
class Outcome:
    """What became of a message, in words for whoever sent it."""

    taken: bool
    code: str
    words: str
    errors: Mapping[str, list[str]] = field(default_factory=dict)
    """By the answer's fields, where it did not fit."""
    pause: Pause | None = None
    """The question that it is about."""


class NotTaken(Exception):
    """The message decides nothing; `outcome` says why."""

    def __init__(self, code: str, words: str, pause: Pause | None = None) -> None:
        super().__init__(words)
        self.outcome = Outcome(False, code, words, pause=pause)


@dataclass(frozen=True)
class OutboundMessage:
    """What is said of a question, for every channel to render."""

    subject: str
    question: str
    about: str
    """The order's or thread's title, and its workflow."""
    outcome: str
    """What became of the question, or what was wrong with an answer to it; "" where it was only
    asked.
    """
    content: str
    """Markdown."""
    others: list[str]
    """Who else may answer."""
    due: Any
    """When the answer is due; None where it is not."""
    url: str
    link_answers: bool
    """Whether the link's page takes the answer without a login."""

    @property
    def left_out(self) -> Sequence[str]:
        """What is in the content and not in its rendering."""
        return markdown.read(self.content).notes


@dataclass(frozen=True)
class Invitation:
    """How a mail, or a message of another service, is answered where it arrives."""

    text: str = ""
    """Stands below a message of a chat."""
    reply_to: str = ""
    """A mail's address for replies."""
    marker: str = ""
    """Stands on top of a mail whose replies are read."""
    answers: bool = False
    """Whether the mail says that a reply answers it."""


@dataclass(frozen=True)
class SetupFault:
    """What keeps a channel that is half set up from working."""

    subject: str
    words: str
    remedy: str
    wrong: bool = True
    """Whether messages are lost by it."""


class Channel(Service, Protocol):
    """A service in which people answer."""

    connect: str | Promise = ""
    stranger: str | Promise = ""
    """What somebody is told whom nobody knows here."""
    connected: str | Promise = gettext_lazy("Connected: from now on you answer here as %(name)s.")
    place: str | Promise = ""
    body_limit: str = "EVENT_BYTES"
    """A name of `runs.limits`: how long a request may be."""
    signature: Mapping[str, str] | None = None
    """How the API's document describes what signs; None for Standard Webhooks."""
    operation: Mapping[str, Any]
    """What the API's document says of the channel's address, as `extend_schema` takes it; without
    a word of them JSON comes in and goes out.
    """

    def verify(self, request: SignedRequest) -> InboundMessage:
        """Say who sent a request and what it holds.

        Raises Unsigned, before anything is read, and Unreadable.
        """
        ...

    def person(self, sender: Sender) -> User | None:
        """Who of ours that is; None where nobody is, or somebody who is switched off."""
        return accounts.person_of(self.name, sender.team, sender.account)

    def take(self, message: InboundMessage, by: User | None) -> Given | None:
        """Read the answer in a message; None where nothing is to be decided or said.

        Raises NotTaken with words for whoever sent it, also where `by` is None. Whether `by` may
        answer, `decide` judges.
        """
        ...

    def tell(self, message: InboundMessage, by: User | None, outcome: Outcome | None) -> Any:
        """Say what became of a message (None: nothing is to be said); gives the body, as JSON, that
        its request is answered with.
        """
        ...

    def invite(self, delivery: Delivery, message: OutboundMessage) -> Invitation | None:
        """How a message that goes out by mail or chat is answered by this channel; None where it
        is not.
        """
        return None

    def setup_faults(self) -> Iterator[SetupFault]:
        """What `doctor` says of the channel's settings."""
        yield from ()


@runtime_checkable
class PostingChannel(Channel, Protocol):
    """A channel that posts questions itself, and changes its messages once they are settled."""

    places: re.Pattern[str]
    """Ids of places that can be posted to."""
    example: str
    """One of them, for whoever wrote none."""
    needs: tuple[str, ...]
    """The settings without which nothing is posted."""

    def in_use(self) -> bool:
        """Whether it is set up."""
        return all(getattr(settings, name) for name in self.needs)

    def setup_faults(self) -> Iterator[SetupFault]:
        if any(getattr(settings, name) for name in self.needs) and not self.in_use():
            words = f"Of the settings of {self.label} one is missing, so no question goes there."
            yield SetupFault(self.name, words, f"Set {' and '.join(self.needs)}.")

    def render(self, delivery: Delivery, message: OutboundMessage) -> dict[str, Any]:
        """What a message shows: buttons while its question can be answered there."""
        ...

    def post(self, place: str, content: dict[str, Any]) -> str:
        """Post a message; gives where it stands, in 80 characters at most.

        Raises AddressRefused where that is of no use, CannotReach where it may be later.
        """
        ...

    def change(self, kept: str, content: dict[str, Any]) -> bool:
        """Change the message that stands there; False where it cannot be changed any more.

        Raises as `post`.
        """
        ...

    def whisper(self, delivery: Delivery) -> None:
        """Tell one person what became of a press, by the address that came with it; raises as
        `post`.
        """
        raise AddressRefused("This channel says what became of a press at once.")
