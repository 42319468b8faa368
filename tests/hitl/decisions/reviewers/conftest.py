"""Whatever a test of rules leaves behind: what many people are told of questions is what each of
them is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from django.db import connection

from checkpoints.database import one_look
from checkpoints.database.people import User
from checkpoints.models import Thread
from hitl.decisions.deadlines import changes
from hitl.decisions.reviewers import policy, watchers
from hitl.models import is_service
from runs.models import Pause

_prepared = changes.PreparedInbox(lambda waiting, _: waiting.values_list("pk"))


def standings_differ() -> list[str]:
    """F9, P3: where `watchers`, or SQL that is kept, says something else of a person than the
    queries behind their pages.
    """
    people = list(User.objects.all())
    pauses = list(Pause.objects.select_related("run"))
    if not pauses:
        return []
    told, _ = watchers.watched([pause.pk for pause in pauses], [person.pk for person in people])
    found = []
    for person in people:
        with one_look.only(when=True):  # as each page of theirs asks
            found += [f"{person}: {words}" for words in _differ(person, pauses, told)]
    return found


def _differ(
    person: User, pauses: Iterable[Pause], told: Iterable[watchers.WatchedQuestion]
) -> Iterator[str]:
    waiting = set(changes.inbox(person).values_list("pk", flat=True))
    if (kept := _prepared.get(person)) is not None and {key for [key] in kept} != waiting:
        yield "another inbox by the SQL that is kept"
    if changes.count_inbox(person) != len(waiting):
        yield f"a badge of {changes.count_inbox(person)}"
    threads = set(Thread.objects.visible_to(person).values_list("pk", flat=True))
    takes_part = {pause.pk for pause in pauses if pause.run.thread_id in threads}
    says = {one.pk: one.standings[person.pk] for one in told if person.pk in one.standings}
    waits = {key for key, standing in says.items() if standing.waits}
    parts = {key for key, standing in says.items() if standing.takes_part}
    if waits != waiting:
        yield f"{waits ^ waiting} in one inbox of the two"
    if not person.is_active or is_service(person):
        return
    if parts != takes_part:
        yield f"{parts ^ takes_part} of one's threads"
    seen = takes_part | set(policy.asked_of(person).values_list("pk", flat=True))
    if set(says) != seen:
        yield f"{set(says) ^ seen} seen by one of the two"


@pytest.fixture(autouse=True)
def _many_are_told_as_one_is(request: pytest.FixtureRequest, seen: set[str]) -> Iterator[None]:
    """Once for a case and the questions that it leaves, through whichever door it went."""
    yield
    if request.node.get_closest_marker("django_db") and not connection.needs_rollback:
        case = getattr(request.node, "callspec", None)
        given = {name: of for name, of in case.params.items() if name != "door"} if case else {}
        left = sorted(map(str, Pause.objects.values_list("status", "stage", "review")))
        key = f"{request.function.__name__} {given} {left}"
        assert key in seen or standings_differ() == []
        seen.add(key)


@pytest.fixture(scope="module")
def seen() -> set[str]:
    return set()
