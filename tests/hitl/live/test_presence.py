"""Who else is at a question: told to those who see it, kept in rows that end by themselves, in no
log, and in nobody's way.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import uuid
from contextlib import asynccontextmanager

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from checkpoints.events import live
from checkpoints.models import Event
from hitl.decisions import presence, services
from hitl.decisions.services import Answer
from hitl.decisions.talk import comments
from hitl.live.hub import Hub
from hitl.live.topics import NewestNumbers, Topic
from hitl.models import Presence, Via
from runs.definitions import reviewer_index
from runs.models import Pause
from runs.workflows.reviews.review import Review
from tests.conftest import pause_of
from tests.databases.whole import file_database as file_database
from tests.hitl.live.sockets import as_ana as as_ana
from tests.hitl.live.sockets import bearer, elsewhere, socket
from tests.hitl.live.sockets import url as url

NOW = timezone.now()
LATER = NOW + presence.LASTS + dt.timedelta(seconds=1)


@pytest.mark.django_db
class TestRows:
    def test_each_sees_the_others_and_not_themselves(self, paused, ana, ben):
        pause = pause_of(paused)
        assert presence.note(pause.pk, by=ana, writing=False, now=NOW) == []
        assert presence.note(pause.pk, by=ben, writing=True, now=NOW) == [
            {"name": "Ana Ruiz", "writing": False}
        ]
        assert presence.look(pause.pk, by=ana, now=NOW) == [{"name": "Ben", "writing": True}]

    def test_what_was_sent_is_not_being_written_any_more(self, paused, ana, ben):
        """Issue 36: "Ana is writing" stood there after she had sent it."""
        pause = pause_of(paused)
        presence.note(pause.pk, by=ana, writing=True, now=NOW)
        comments.add(pause.pk, "Sent.", by=ana)
        assert presence.look(pause.pk, by=ben, now=NOW) == [{"name": "Ana Ruiz", "writing": False}]

    def test_it_ends_by_itself_and_the_sweep_drops_it(self, paused, ana, ben):
        """A browser that was closed says nothing more."""
        pause = pause_of(paused)
        presence.note(pause.pk, by=ben, writing=True, now=NOW)
        assert presence.look(pause.pk, by=ana, now=LATER) == []
        presence.note(pause.pk, by=ana, writing=False, now=LATER)
        presence.drop_old(now=LATER)
        assert [row.person for row in Presence.objects.all()] == [ana]

    def test_said_again_it_is_one_row_and_no_event(self, paused, ana):
        """Nothing of it is in the log."""
        pause, events = pause_of(paused), Event.objects.count()
        for writing in (False, False, True, True, False):
            presence.note(pause.pk, by=ana, writing=writing, now=NOW)
        assert (Presence.objects.count(), Event.objects.count()) == (1, events)

    def test_others_are_told_of_changes_only(
        self, paused, ana, monkeypatch, django_capture_on_commit_callbacks
    ):
        sent = []
        monkeypatch.setattr(live, "_send", lambda to, message: sent.append(message))
        for writing in (False, False, True, True):
            with django_capture_on_commit_callbacks(execute=True):
                presence.note(pause_of(paused).pk, by=ana, writing=writing, now=NOW)
        assert len(sent) == 2 and all(
            one["topics"] == [presence.TOPIC] and not one["events"] for one in sent
        )

    def test_it_keeps_nobody_from_answering(self, paused, ana, ben):
        pause = pause_of(paused)
        presence.note(pause.pk, by=ben, writing=True, now=timezone.now())
        services.decide(pause.pk, Answer("approve", Via.PAGE), by=ana)
        assert presence.note(pause.pk, by=ana, writing=False, now=timezone.now()) == []
        assert [row.person for row in Presence.objects.all()] == [ben], (
            "of a question that is closed nothing is noted"
        )

    def test_an_administrator_who_is_not_asked_is_not_named(self, paused, ana, admin_user):
        rules: Review = {"reviewers": {"users": ["ana"]}}
        Pause.objects.update(review=rules, panel=reviewer_index.keep(rules))
        pause = pause_of(paused)
        presence.note(pause.pk, by=admin_user, writing=False, now=NOW)
        assert presence.look(pause.pk, by=ana, now=NOW) == []

    def test_who_was_switched_off_is_not_named(self, paused, ana, ben):
        presence.note(pause_of(paused).pk, by=ben, writing=False, now=NOW)
        User.objects.filter(pk=ben.pk).update(is_active=False)
        assert presence.look(pause_of(paused).pk, by=ana, now=NOW) == []

    def test_without_a_socket_it_is_a_request(self, paused, api, ana, ben, zoe):
        """F4: strangers are at nothing that they may not see; GET notes nobody."""
        path = f"/api/v1/pauses/{pause_of(paused).shown_id}/presence"
        assert (
            api(zoe).post(path, {"writing": True}, format="json").status_code
            == api(zoe).get(path).status_code
            == 404
        )
        assert (api(ben).get(path).json(), Presence.objects.count()) == ({"present": []}, 0)
        assert api(ben).post(path, {"writing": True}, format="json").json() == {"present": []}
        assert api(ana).get(path).json() == {"present": [{"name": "Ben", "writing": True}]}
        assert api(ana).post(path, {"writing": "perhaps"}, format="json").status_code == 400


@pytest.mark.parametrize("first", [True, False])
def test_two_hints_that_go_as_one_lose_neither(first):
    """A hint of presence that meets one of events."""
    told = {"type": "thread.hint", "thread": "x", "seq": 7, "events": [{"seq": 7}]}
    other = {"type": "thread.hint", "thread": "x", "seq": 0, "events": [], "topics": ["presence"]}
    both = live._joined(told, other) if first else live._joined(other, told)
    assert both == {**told, "topics": ["presence"]}
    assert live._joined(both, {**told, "seq": 8, "events": [{"seq": 8}]})["events"] == [
        {"seq": 7},
        {"seq": 8},
    ]


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("file_database")
async def test_over_the_socket_everybody_hears_at_once_that_somebody_writes(
    url, as_ana, paused, ben, zoe
):
    """The hint says that, the reply to one's own message who."""
    pause, last = await elsewhere(lambda: pause_of(paused)), paused.thread.last_seq
    tokens = await elsewhere(lambda: (bearer(ben), bearer(zoe)))
    say = json.dumps({"type": "presence", "pause_id": pause.shown_id, "writing": True, "id": 1})
    async with (
        socket(f"{url}?after={last}", as_ana) as ana,
        socket(f"{url}?after={last}", tokens[0]) as other,
    ):
        await other.send_to(text_data=say)
        assert json.loads(await other.receive_from(timeout=10)) in ({"type": "presence"}, _there(1))
        assert json.loads(await ana.receive_from(timeout=10)) == {"type": "presence"}
        await ana.send_to(
            text_data=json.dumps({"type": "presence", "pause_id": pause.shown_id, "id": 2})
        )
        replies = [json.loads(await ana.receive_from(timeout=10)) for _ in range(2)]
        assert _there(2, {"name": "Ben", "writing": True}) in replies
    async with socket("/ws/inbox", tokens[1]) as stranger:
        await stranger.receive_from(timeout=10)
        await stranger.send_to(text_data=say)
        assert json.loads(await stranger.receive_from(timeout=10))["problem"]["code"] == "not_found"


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("file_database")
async def test_what_a_socket_says_first_is_answered_when_it_hears_all_that_follows(
    url, as_ana, paused, ben, monkeypatch
):
    """Before, who was told that nobody else is there did not hear of who came while the socket was
    still opening, and saw it eight seconds later.
    """
    pause, last = await elsewhere(lambda: pause_of(paused)), paused.thread.last_seq
    told, watching = [], Hub._watching

    @asynccontextmanager
    async def slow(hub, thread_id):
        await asyncio.sleep(0.2)
        async with watching(hub, thread_id) as topic:
            told.append("hears")
            yield topic

    monkeypatch.setattr(Hub, "_watching", slow)
    async with socket(f"{url}?after={last}", as_ana) as ana:
        await ana.send_to(
            text_data=json.dumps({"type": "presence", "pause_id": pause.shown_id, "id": 1})
        )
        # and that somebody came: itself
        first = [json.loads(await ana.receive_from(timeout=10)) for _ in range(2)]
        assert _there(1) in first and {"type": "presence"} in first
        assert told == ["hears"]
        await elsewhere(lambda: presence.note(pause.pk, by=ben, writing=True, now=timezone.now()))
        assert json.loads(await ana.receive_from(timeout=10)) == {"type": "presence"}


async def test_who_watched_without_hints_for_a_while_is_to_ask_again():
    topic = Topic(uuid.uuid4(), NewestNumbers())
    hub, before = Hub(), topic.stirs
    hub._topics[topic.thread_id] = topic
    hub._tried.set()
    hub._look_everywhere()
    hub._inbox.stop()
    topic.stop()
    assert topic.stirs == before + 1


def _there(name, *present):
    return {"type": "accepted", "id": name, "result": {"present": list(present)}}
