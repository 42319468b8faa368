"""A page with a question that looks again says which version it has, and is told nothing, what
changed, or the whole: with what it had it is then the page that it would be from the beginning.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from copy import copy
from html.parser import HTMLParser
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client
from django.utils import timezone

from checkpoints.events import log
from checkpoints.models import EventKind
from hitl.decisions import claims, services
from hitl.decisions.deadlines import changes
from hitl.decisions.services import Answer
from hitl.decisions.talk import comments, handing_over
from hitl.models import Comment, Delegation, Via
from hitl.views import story
from hitl.views.threads import news
from runs.models import Pause, Run, WorkOrder
from runs.services import priorities
from tests.conftest import pause_of
from tests.databases.undone import undone
from tests.hitl.live.sockets import write
from tests.runs.engine.children.crews import ASKING, answer, sub, worked
from tests.runs.engine.children.crews import asked as asked_by
from tests.runs.engine.children.crews import crew as crew
from tests.worlds.people import give
from tests.worlds.ruled_order import browser
from tests.worlds.ruled_order import ruled as ruled

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]
RULES = {
    "reviewers": {"users": ["ana", "ben", "cleo"]},
    "quorum": 2,
    "deadline": {"after": "PT4H"},
}
VOID = {"input", "br", "img", "hr"}
OWN = re.compile(r'name="csrfmiddlewaretoken" value="\w+"|(?<=>)[^<]*(?=</time>)')


class Parts(HTMLParser):
    """The HTML of each part of a page, and of each list of news, by its name."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=False)
        self.found: dict[str, str] = {}
        self._open: list[tuple[str, int]] = []
        self._depth = 0
        self.feed(OWN.sub("", page))

    def _add(self, text: str) -> None:
        for name, _ in self._open:
            self.found[name] += text

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = dict(attrs)
        name = has.get("data-live") or (f"new {has['data-news']}" if "data-news" in has else "")
        if name:
            self._open.append((name, self._depth))
            self.found[name] = ""
        self._add(self.get_starttag_text() or "")
        self._depth += tag not in VOID

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        self._depth -= 1
        self._add(f"</{tag}>")
        if self._open and self._open[-1][1] == self._depth:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        self._add(data)

    def handle_entityref(self, name: str) -> None:
        self._add(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self._add(f"&#{name};")


def rows(part: str) -> list[str]:
    return re.findall(
        r"<li.*?</li>", re.sub(r"<li[^>]*data-none.*?</li>", "", part, flags=re.S), re.S
    )


class Reader:
    """Somebody who has an order's page open."""

    def __init__(self, order: WorkOrder, who: User) -> None:
        self.client, self.url = browser(who), f"/work-orders/{order.shown_id}/"
        self.parts, self.version = self._opened()

    def _opened(self) -> tuple[dict[str, str], str]:
        page = self.client.get(self.url).content.decode()
        [version] = re.findall(r'data-version="([^"]*)"', page)
        return Parts(page).found, version

    def again(self) -> Reader:
        """The same page, as it is now, in another window."""
        other = copy(self)
        other.parts = {**self.parts}
        return other

    def look(self, **headers: str) -> Any:
        return self.client.get(
            f"{self.url}?live", headers={"if-none-match": f'"{self.version}"', **headers}
        )

    def looks(self) -> set[str]:
        """The names of what they are told, once it is on their page as static/js puts it there."""
        answer = self.look()
        if answer.status_code == 304:
            assert not answer.content
            return set()
        text = answer.content.decode()
        told, card = Parts(text).found, self.parts["card"]
        for name, part in told.items():
            if name == "new log":
                self.parts["log"] = "".join([*rows(self.parts["log"]), *rows(part)])
            elif name == "new timeline":
                self.parts["timeline"] = "".join([*rows(part), *rows(self.parts["timeline"])])
            else:
                self.parts[name] = part
        if "card" in told and "data-key" in card:
            self.parts["card"] = told["card"]
        [self.version] = re.findall(r'data-version="([^"]*)"', text)
        return set(told)

    def check(self) -> None:
        """Whether their page is what it would be from the beginning."""
        now, version = self._opened()
        assert self.version == version
        for name in now.keys() - {"card"}:
            mine, theirs = self.parts[name], now[name]
            if name in {"log", "timeline"}:
                mine, theirs = "".join(rows(mine)), "".join(rows(theirs))
            assert mine == theirs, name


def claimed(pause: Pause, cleo: User) -> None:
    claims.claim(pause.pk, by=cleo)


def claimed_and_released(pause: Pause, cleo: User) -> None:
    claims.claim(pause.pk, by=cleo)
    claims.release(pause.pk, by=cleo)


def commented(pause: Pause, cleo: User) -> None:
    comments.add(pause.pk, "Is <b>this</b> right?", by=cleo)


def comment_withdrawn(pause: Pause, cleo: User) -> None:
    commented(pause, cleo)
    comments.withdraw(Comment.objects.get().pk, by=cleo)


def voted(pause: Pause, cleo: User) -> None:
    services.decide(pause.pk, Answer("approve", Via.PAGE), by=cleo)


def said_in_the_log(pause: Pause, cleo: User) -> None:
    write(pause.run.work_order, "One line", "<i>Another</i>")


def deadline_moved(pause: Pause, cleo: User) -> None:
    assert pause.deadline_at is not None
    until = pause.deadline_at + dt.timedelta(hours=1)
    changes.extend(pause.pk, by=cleo, until=until, reason="Later")


def handed_over(pause: Pause, cleo: User) -> None:
    handing_over.hand_over(pause.pk, by=cleo, to="ben", reason="I am away")


def priority_changed(pause: Pause, cleo: User) -> None:
    order = pause.run.work_order
    assert order is not None
    priorities.change(order.pk, -1, by=order.created_by)


def wanted_to_stop(pause: Pause, cleo: User) -> None:
    Run.objects.filter(pk=pause.run_id).update(suspend_by="cleo")


def answered(pause: Pause, cleo: User) -> None:
    voted(pause, cleo)
    services.decide(pause.pk, Answer("approve", Via.PAGE), by=User.objects.get(username="ana"))


WHOLE = {"head", "steps", "card", "aside", "timeline", "log"}
TOLD: dict[Callable[[Pause, User], None], set[str]] = {
    claimed: {"answering", "new timeline"},
    claimed_and_released: {"answering", "new timeline"},
    commented: {"talk", "new timeline"},
    comment_withdrawn: {"talk", "new timeline"},
    voted: {"who", "stage", "answering", "talk", "new timeline"},
    said_in_the_log: {"new log"},
    deadline_moved: {"who", "stage", "answering", "talk", "new timeline"},
    handed_over: {"who", "stage", "answering", "talk", "new timeline"},
    priority_changed: WHOLE,
    wanted_to_stop: WHOLE,
    answered: WHOLE,
}


@pytest.fixture
def asked(ruled: Any, team: Any, ben: User) -> WorkOrder:
    cleo = User.objects.get_or_create(username="cleo")[0]
    cleo.groups.add(team)
    order: WorkOrder = ruled(RULES)
    return order


def test_what_is_told_makes_the_page_that_it_would_be_from_the_beginning(asked, ana, ben, subtests):
    cleo = User.objects.get(username="cleo")
    readers = {one.username: Reader(asked, one) for one in (ana, ben, cleo)}
    for change, expected in TOLD.items():
        with undone():
            change(pause_of(asked), User.objects.get(username="cleo"))
            for name, reader in readers.items():
                with subtests.test(change=change.__name__, who=name):
                    told = (reader := reader.again()).looks()
                    # who claimed it takes the form to hand it over away from the others
                    told -= {"who", "stage"} if change is claimed else set()
                    assert told >= WHOLE if expected is WHOLE else told == expected
                    if change is not answered:
                        reader.check()
                        assert reader.looks() == set()


def test_what_the_clock_alone_changes_is_told_too(asked, ana, ben):
    """A claim that lapsed, a deadline that passed."""
    reader, pause = Reader(asked, ben), Pause.objects.filter(pk=pause_of(asked).pk)
    claims.claim(pause.get().pk, by=ana)
    assert reader.looks() >= {"answering", "new timeline"}
    before = timezone.now() - dt.timedelta(minutes=1)
    pause.update(claimed_until=before)
    assert reader.looks() >= {"answering"}
    pause.update(deadline_at=before)
    assert reader.looks() >= {"answering"}


def test_nothing_new_is_told_without_a_word_in_few_queries(
    asked, ben, django_assert_max_num_queries
):
    reader = Reader(asked, ben)
    reader.look()
    with django_assert_max_num_queries(9):
        answer = reader.look()
    assert (answer.status_code, answer.content) == (304, b"")
    assert answer["ETag"] == f'"{reader.version}"'
    assert answer["X-Trace-Id"] == pause_of(asked).run.shown_id


def test_who_lost_the_right_between_two_looks_is_told_nothing(asked, ana, ben, zoe, team, subtests):
    """P3: neither what changed, nor that nothing did; by no version of somebody else's."""
    hers, his = Reader(asked, ana), Reader(asked, ben)
    assert hers.version != his.version
    his.version = hers.version
    assert his.look().status_code == 200
    his.version = Reader(asked, ben).version
    stranger = Client()
    stranger.force_login(zoe)
    assert (
        stranger.get(his.url + "?live", headers={"if-none-match": his.version}).status_code == 404
    )
    ben.groups.remove(team)
    asks_him = his.look()
    assert asks_him.status_code == 200, "the rules name him"
    assert "Search and download" not in asks_him.content.decode()
    cleo = Reader(asked, User.objects.get(username="cleo"))
    User.objects.filter(username="cleo").update(is_active=False)
    assert cleo.look().status_code == 302


def test_a_right_that_came_or_went_is_on_the_page_at_the_next_look(asked, ben, ana):
    """The right to raise priorities; to answer in somebody's place."""
    reader = Reader(asked, ben)
    give(ben, "raise_priority")
    assert reader.looks() >= WHOLE
    assert "Change it" in reader.parts["aside"]
    ben.user_permissions.clear()
    assert "aside" in reader.looks()
    assert "Change it" not in reader.parts["aside"]
    now = timezone.now()
    lent = Delegation.objects.create(
        from_user=ana,
        to_user=ben,
        starts_at=now,
        ends_at=now + dt.timedelta(days=1),
        created_by=ana,
    )
    assert reader.looks() == {"who", "stage", "answering"}
    Delegation.objects.filter(pk=lent.pk).delete()
    assert reader.looks() == {"who", "stage", "answering"}


@pytest.mark.parametrize(
    "change", [{"accept-language": "de"}, {"if-none-match": "x"}, {"if-none-match": '"1.2.3.4"'}]
)
def test_another_language_and_a_version_that_is_none_get_the_whole(change, asked, ben):
    reader = Reader(asked, ben)
    shown = reader.look(**change).content.decode()
    assert Parts(shown).found.keys() >= WHOLE


@pytest.mark.parametrize(
    "tag", ["", "x", '""', "a.b.c.-1", "a.b.c.1.2", f"a.b.c.{'9' * 30}", "a.b.c.¹"]
)
def test_a_version_of_nobodys_is_none(tag):
    assert news.read(tag) is None


def test_a_version_reads_as_it_was_written():
    version = news.Version("a", "b", "c", 7)
    assert news.read(f'W/"{version}"') == version


def test_more_than_is_told_one_by_one_is_told_whole(asked, ben):
    reader = Reader(asked, ben)
    for number in range(story.NEW + 1):
        write(asked, f"Line {number}")
    assert reader.looks() >= WHOLE
    reader.check()


def test_a_page_of_earlier_events_and_one_without_a_question_are_told_whole(asked, make_order, ben):
    reader = Reader(asked, ben)
    reader.url += "?events=2"
    write(asked, "A line")
    answer = reader.client.get(f"{reader.url}&live", headers={"if-none-match": reader.version})
    assert Parts(answer.content.decode()).found.keys() >= WHOLE
    idle = make_order()
    shown = reader.client.get(f"/work-orders/{idle.shown_id}/?live")
    assert "ETag" not in shown
    assert 'data-version=""' in shown.content.decode()


def test_what_child_runs_do_shows_on_the_page_of_a_question(crew, ben):
    """It is told on threads of their own."""
    order = worked(crew([sub(name, **ASKING) for name in ("draft", "figures")], parallel=True))
    reader = Reader(order, ben)
    assert reader.looks() == set()
    child = asked_by("draft").run
    with transaction.atomic():
        log.append(child.thread_id, child.pk, [(EventKind.LOG, {"message": "a line"})])
    assert reader.looks() >= WHOLE
    answer(asked_by("figures"), ben)
    assert reader.looks() >= WHOLE
    assert "Asks: " in reader.parts["children"]
    assert reader.parts["children"].count("Waiting for Plan Approval") == 1
