"""What waits for whom, for all open inboxes of a process: each person's questions are counted once
when they come, and from then on one look at what changed says it for all who watch.

A socket is told ids of questions that waited for its own person when it was told before, or wait
now, and no others. Rights are read anew at each look: who lost or got some is counted again.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import time
import uuid
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Hashable, Mapping
from heapq import nsmallest
from typing import Any, NamedTuple, TypeAlias

from checkpoints.database import clock
from checkpoints.database.outages import OutageAnswer
from checkpoints.database.people import User
from hitl.decisions.deadlines import changes as deadline_changes
from hitl.decisions.deadlines.changes import MOST_COUNTED
from hitl.decisions.reviewers import watchers
from hitl.decisions.reviewers.watchers import Standing, WatchedQuestion
from hitl.live.outages import Outage
from runs.models import Pause

logger = logging.getLogger(__name__)

QUIET = 0.1
"""Seconds between two messages to one inbox: a burst of questions is one change."""
TOLD_PER_SECOND = 1000
"""Messages to all inboxes of a process together; more of them are told a little later."""
OLD = 30.0
"""Seconds after which is counted though no question changed: one that was hidden comes back,
somebody stands in for another.
"""
SHOWN = 50
"""Questions on a page of the inbox."""
BACK = dt.timedelta(minutes=1)
"""How far a look goes back.

Far longer than a transaction and hosts' clocks differ: commits are not in the order of their times.
"""
LOOKED_AT = 1000
"""Changes that a look takes at most, the last ones."""
MANY = 200
"""Changes of one look after which all inboxes are counted anew."""
COUNTED_AT_ONCE = 20
"""People who are counted between two looks: after a deploy a thousand come at once."""
KEPT = 1000
"""Changes of one inbox that are remembered: a socket that has not heard of more hears all anew."""

Changes: TypeAlias = frozenset[tuple[uuid.UUID, dt.datetime]]
"""Questions, with when they changed."""


class WaitingRow(NamedTuple):
    """A question in somebody's inbox: where it stands there, and as of when."""

    deadline_at: dt.datetime | None
    changed_at: dt.datetime


Waiting: TypeAlias = dict[uuid.UUID, WaitingRow]


class RowText(NamedTuple):
    """A question as HTML, written once in each language for all pages that have it."""

    free: str
    """Its row for who may answer it: nobody has claimed it, or they have. Where it is over, its
    line in the history.
    """
    held: str
    """Its row for everybody else."""
    whose: int | None
    """Who has claimed it, or answered it."""
    is_over: bool


Teller: TypeAlias = Callable[
    [Collection[uuid.UUID], Collection[str]], Mapping[tuple[uuid.UUID, str], RowText]
]
"""Questions, and languages → their rows, and where they are over, their lines in the history."""


class InboxNews(NamedTuple):
    """What an inbox is told."""

    number: int
    """Up to `deadline_changes.MOST_COUNTED`."""
    gone: list[uuid.UUID]
    new: list[uuid.UUID]
    changed: list[uuid.UUID]
    first: list[tuple[uuid.UUID, dt.datetime]] | None
    """In the first message, and where more changed than is remembered: its first page, with when
    each of them changed. Then nothing is named as gone, new or changed.
    """
    html: dict[uuid.UUID, str]
    """For pages: the rows of what changed, and the lines of what went where their person may see
    what became of it.
    """
    past: list[uuid.UUID]
    """Of these lines, those that belong into the person's history."""


def waiting_now(user_ids: Collection[int]) -> tuple[dict[int, Waiting], dict[int, Hashable]]:
    """By the badge's own queryset, up to MOST_COUNTED of each; and by which rights.

    The people are read anew: a socket stays open longer than somebody stays a superuser.
    """
    rights = watchers.People(user_ids, clock.now()).rights
    people = User.objects.filter(pk__in=user_ids, is_active=True).select_related("service_account")
    found: dict[int, Waiting] = {key: {} for key in user_ids}
    for person in people:
        rows = deadline_changes.SOONEST(deadline_changes.inbox(person)).values_list(
            "pk", "deadline_at", "changed_at"
        )
        found[person.pk] = {
            pk: WaitingRow(due, changed) for pk, due, changed in rows[:MOST_COUNTED]
        }
    return found, rights


def changes_of_late() -> Changes:
    """One query by an index, whoever asks."""
    return frozenset(Pause.objects.changed(since=clock.now() - BACK, limit=LOOKED_AT))


def _place(entry: tuple[uuid.UUID, WaitingRow]) -> tuple[bool, dt.datetime, uuid.UUID]:
    """As `deadline_changes.SOONEST` has it."""
    key, (deadline_at, changed_at) = entry
    return deadline_at is None, deadline_at or changed_at.min.replace(tzinfo=dt.UTC), key


class _Change(NamedTuple):
    version: int
    key: uuid.UUID
    waited: bool
    standing: Standing | None


class InboxOfPerson:
    """What waits for one person who has their inbox open, in however many tabs."""

    def __init__(self, kept: int = KEPT) -> None:
        self.watchers = 0
        self.known: Waiting | None = None
        self.rights: Hashable = None
        self.counted_at = -OLD
        self.version = 0
        self._cut = False
        self._changes: deque[_Change] = deque(maxlen=kept)

    @property
    def is_old(self) -> bool:
        """Whether it is to be counted: time alone changes what waits, too; and who has more than
        are counted, and answers some, has others.
        """
        return (
            self.known is None
            or time.monotonic() - self.counted_at > OLD
            or (self._cut and len(self.known) < MOST_COUNTED)
        )

    def count(self, waiting: Waiting, rights: Hashable) -> None:
        known, self.known, self.rights = self.known, waiting, rights
        self.counted_at, self._cut = time.monotonic(), len(waiting) == MOST_COUNTED
        if known is None:
            self.version += 1
            return
        for key in known.keys() | waiting.keys():
            if known.get(key) != waiting.get(key):
                self._note(key, key in known, None)

    def take(
        self, question: WatchedQuestion | None, key: uuid.UUID, standing: Standing | None
    ) -> None:
        """A question changed, or is no more."""
        if self.known is None:
            return
        waited = key in self.known
        if question is not None and standing is not None and standing.waits:
            self.known[key] = WaitingRow(question.deadline_at, question.changed_at)
        elif waited:
            del self.known[key]
        else:
            return
        self._note(key, waited, standing)

    def _note(self, key: uuid.UUID, waited: bool, standing: Standing | None) -> None:
        self.version += 1
        self._changes.append(_Change(self.version, key, waited, standing))

    def since(self, version: int) -> list[_Change] | None:
        """What changed after that, each question once, as it was before the first change and who
        saw it at the last; None where that is not known any more.
        """
        if not version or (self._changes and self._changes[0].version > version + 1):
            return None
        found: dict[uuid.UUID, _Change] = {}
        for change in self._changes:
            if change.version > version:
                before = found.get(change.key, change)
                found[change.key] = change._replace(waited=before.waited)
        return list(found.values())


class Inbox:
    """The open inboxes of one event loop."""

    def __init__(
        self,
        in_database_thread: Callable[[Callable[..., Any]], Callable[..., Any]],
        note: Callable[[Exception | None], None],
    ) -> None:
        self.watchers = 0
        self.outage: OutageAnswer | None = None
        self._note = note
        """Is told of each look whether the database answered."""
        self._in_database_thread = in_database_thread
        self._read = in_database_thread(waiting_now)
        self._watched = in_database_thread(watchers.watched)
        self._changes_of_late = in_database_thread(changes_of_late)
        self._seen: Changes | None = None
        self._people: dict[int, InboxOfPerson] = {}
        self._languages: dict[str, int] = {}
        self._texts: dict[tuple[uuid.UUID, str], RowText] = {}
        self._tell: Teller | None = None
        self._looking: asyncio.Task[None] | None = None
        self._again = False
        self._changed = asyncio.Event()

    def look(self) -> None:
        """Look whether questions changed: a hint says so, or some may have been lost.

        All who wish so meanwhile share the next look.
        """
        if not self.watchers:
            return
        self._again = True
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="look at the inboxes")

    async def _look(self) -> None:
        while self._again:
            self._again = False
            try:
                await self._look_once()
            # databases raise their clients' own errors; the next look may succeed
            except Exception as error:  # noqa: BLE001
                logger.warning("could not look for changed questions, will look again: %s", error)
                self._note(error)
                return
            self._note(None)

    async def _look_once(self) -> None:
        """What changed is read first: who is counted behind that knows it, or more."""
        changes = await self._changes_of_late()
        fresh = {key for key, _ in changes - (changes if self._seen is None else self._seen)}
        counted = {key: one for key, one in self._people.items() if one.known is not None}
        if len(fresh) > MANY:
            for one in counted.values():
                one.counted_at = -OLD
        elif fresh and counted:
            await self._take(fresh, counted)
        self._seen = changes
        to_count = [key for key, one in self._people.items() if one.is_old]
        if to_count:
            counts, rights = await self._read(to_count[:COUNTED_AT_ONCE])
            for key, waiting in counts.items():
                if key in self._people:
                    self._people[key].count(waiting, rights.get(key))
            self._again = self._again or len(to_count) > COUNTED_AT_ONCE
        if fresh or to_count:
            self._stir()

    async def _take(self, fresh: set[uuid.UUID], people: dict[int, InboxOfPerson]) -> None:
        found, rights = await self._watched(fresh, list(people))
        questions = {one.pk: one for one in found}
        shown = [key for key in fresh if any(key in (one.known or ()) for one in people.values())]
        texts: Mapping[tuple[uuid.UUID, str], RowText] = {}
        languages = list(filter(None, self._languages))  # a program has none
        if shown and languages and self._tell is not None:
            texts = await self._in_database_thread(self._tell)(shown, languages)
        of_before = [entry for entry in self._texts.items() if entry[0][0] not in fresh]
        self._texts = {**dict(of_before[-KEPT:]), **texts}
        for user_id, one in people.items():
            if rights.get(user_id) != one.rights:  # of other questions, too
                one.counted_at = -OLD
            for key in fresh:
                question = questions.get(key)
                standing = None if question is None else question.standings.get(user_id)
                one.take(question, key, standing)

    def stop(self) -> None:
        """Nobody watches any more."""
        if self._looking is not None:
            self._looking.cancel()
        self._seen, self._texts = None, {}

    def tell(self, outage: OutageAnswer | None) -> None:
        """The database is away, or is back."""
        self.outage = outage
        self._stir()

    def _stir(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def grow_old(self) -> None:
        """Count those again whom nobody counted for long."""
        if any(one.is_old for one in self._people.values()):
            self.look()

    async def news(
        self, user_id: int, *, language: str = "", tell: Teller | None = None
    ) -> AsyncGenerator[InboxNews | Outage, None]:
        """For one socket: what waits now, and then each change; and that the database went away or
        is back. With a language, as `tell` tells it to pages.
        """
        self._tell = tell or self._tell
        one = self._people.setdefault(user_id, InboxOfPerson())
        one.watchers += 1
        self._languages[language] = self._languages.get(language, 0) + 1
        self.look()
        try:
            async for news in self._news(user_id, one, language):
                yield news
        finally:
            one.watchers -= 1
            self._languages[language] -= 1
            if not one.watchers:
                del self._people[user_id]
            if not self._languages[language]:
                del self._languages[language]

    async def _news(
        self, user_id: int, one: InboxOfPerson, language: str
    ) -> AsyncGenerator[InboxNews | Outage, None]:
        version, outage = 0, None
        while True:
            changed = self._changed
            if self.outage is not outage:
                outage = self.outage
                yield Outage(outage)
            if one.version != version:
                since, version = version, one.version
                yield self._told(user_id, one, since, language)
            await asyncio.sleep(max(QUIET, self.watchers / TOLD_PER_SECOND))
            if self._changed is changed:
                await changed.wait()

    def _told(self, user_id: int, one: InboxOfPerson, since: int, language: str) -> InboxNews:
        known = one.known or {}
        changes = one.since(since)
        if changes is None:
            rows = nsmallest(SHOWN, known.items(), key=_place)
            first = [(key, row.changed_at) for key, row in rows]
            return InboxNews(len(known), [], [], [], first, {}, [])
        news = InboxNews(len(known), [], [], [], None, {}, [])
        for _, key, waited, standing in changes:
            waits = key in known
            if not waits and not waited:
                continue
            (news.gone if not waits else news.changed if waited else news.new).append(key)
            text = self._texts.get((key, language))
            if text is None or standing is None or text.is_over is waits or not waited:
                continue
            news.html[key] = text.free if text.whose in {None, user_id} or not waits else text.held
            if not waits and (standing.takes_part or text.whose == user_id):
                news.past.append(key)
        return news
