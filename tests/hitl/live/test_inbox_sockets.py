"""What an inbox's socket names: the questions of its own person that went, at once, and nobody
else's.
"""

from __future__ import annotations

import datetime as dt

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from hitl.decisions import services
from hitl.decisions.deadlines import changes
from hitl.decisions.services import Answer
from hitl.live.hub import hub
from hitl.models import Via
from tests.conftest import drive, pause_of
from tests.databases.whole import file_database as file_database
from tests.hitl.live.sockets import bearer, elsewhere, receive, socket
from tests.worlds.deadlines import asked as asked

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("file_database")]


def inbox(count, *gone):
    return [{"type": "inbox", "waiting": count, "gone": [pause.shown_id for pause in gone]}]


def answer(pause, *, by, action="approve"):
    services.decide(pause.pk, Answer(action, Via.PAGE), by=by)


async def test_each_device_is_told_which_question_was_answered_elsewhere(asked, ana, ben):
    """S0-56, S0-69, F9: two people's inboxes, and two of one person; each names what went."""
    pauses, headers = await elsewhere(
        lambda: ([pause_of(asked()) for _ in range(3)], [bearer(ana), bearer(ana), bearer(ben)])
    )
    async with (
        socket("/ws/inbox", headers[0]) as one,
        socket("/ws/inbox", headers[1]) as two,
        socket("/ws/inbox", headers[2]) as three,
    ):
        for device in (one, two, three):
            assert await receive(device, 1) == inbox(3)
        for left, pause in ((2, pauses[1]), (1, pauses[0])):
            await elsewhere(lambda pause=pause: answer(pause, by=ana))
            for device in (one, two, three):
                assert await receive(device, 1) == inbox(left, pause)


async def test_a_new_question_is_counted_and_not_named(asked, ana):
    headers = await elsewhere(lambda: bearer(ana))
    async with socket("/ws/inbox", headers) as communicator:
        assert await receive(communicator, 1) == inbox(0)
        await elsewhere(lambda: asked())
        assert await receive(communicator, 1) == inbox(1)


async def test_a_strangers_inbox_is_told_no_id_of_others(asked, make_order, ana, zoe):
    """F4."""
    theirs, his, headers = await elsewhere(
        lambda: (
            pause_of(asked()),
            pause_of(drive(make_order("ruled", by=zoe, team=None))),
            bearer(zoe),
        )
    )
    async with socket("/ws/inbox", headers) as stranger:
        assert await receive(stranger, 1) == inbox(1)
        await elsewhere(lambda: answer(theirs, by=ana))
        assert await stranger.receive_nothing()
        await elsewhere(lambda: answer(his, by=zoe))
        assert await receive(stranger, 1) == inbox(0, his)


async def test_who_left_a_team_hears_that_its_questions_went_and_nothing_of_later_ones(
    asked, ana, ben, team
):
    """F4: he is told ids that waited for him, and no more."""
    seen, headers = await elsewhere(lambda: (pause_of(asked()), bearer(ben)))

    def later():
        ben.groups.remove(team)
        pause = pause_of(asked())
        answer(pause, by=ana)
        answer(seen, by=ana)

    async with socket("/ws/inbox", headers) as communicator:
        assert await receive(communicator, 1) == inbox(1)
        await elsewhere(later)
        assert await receive(communicator, 1) == inbox(0, seen)
        assert await communicator.receive_nothing()


@pytest.mark.parametrize("loses", ["is_superuser", "is_active"])
async def test_an_open_socket_keeps_no_rights_that_its_person_lost(asked, ana, loses):
    """F4: the person is read anew for each message, not kept as of the handshake."""

    def prepare():
        root = User.objects.create_superuser("root", password="x")
        return root, pause_of(asked()), bearer(root)

    root, seen, headers = await elsewhere(prepare)

    def lose():
        User.objects.filter(pk=root.pk).update(**{loses: False})
        answer(pause_of(asked()), by=ana)

    async with socket("/ws/inbox", headers) as communicator:
        assert await receive(communicator, 1) == inbox(1)
        await elsewhere(lose)
        assert await receive(communicator, 1) == inbox(0, seen)
        await elsewhere(lambda: answer(pause_of(asked()), by=ana))
        assert await communicator.receive_nothing()


async def test_what_a_person_hides_on_one_device_goes_on_the_others_too(asked, ana):
    """It changes no question, so it is found when the lists are read again for their age."""
    hidden, _, headers = await elsewhere(
        lambda: (pause_of(asked()), pause_of(asked()), bearer(ana))
    )
    until = timezone.now() + dt.timedelta(hours=1)
    async with socket("/ws/inbox", headers) as communicator:
        assert await receive(communicator, 1) == inbox(2)
        await elsewhere(lambda: changes.snooze(hidden.pk, by=ana, until=until))
        hub()._inbox.stir()
        assert await receive(communicator, 1) == inbox(1, hidden)
