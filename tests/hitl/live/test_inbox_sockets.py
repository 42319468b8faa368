"""What an inbox's socket names: the questions of its own person that went, at once, and nobody
else's.
"""

from __future__ import annotations

import datetime as dt

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from hitl.decisions import claims, services
from hitl.decisions.deadlines import changes
from hitl.decisions.services import Answer
from hitl.live import hub as hubs
from hitl.live.hub import hub
from hitl.live.inbox_feed import OLD
from hitl.models import Via
from tests.conftest import drive, pause_of
from tests.databases.whole import file_database as file_database
from tests.hitl.live.sockets import bearer, elsewhere, receive, socket
from tests.worlds.deadlines import asked as asked

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("file_database")]


@pytest.fixture(autouse=True)
def _nobody_looks_without_a_hint(monkeypatch):
    """Each change is told; a look every five seconds found those that no hint told of."""
    monkeypatch.setattr(hubs, "LOOK_EVERY", 3600.0)


def inbox(count, *gone, new=(), changed=()):
    named = {"gone": gone, "new": new, "changed": changed}
    return [
        {
            "type": "inbox",
            "waiting": count,
            **{name: [pause.shown_id for pause in pauses] for name, pauses in named.items()},
        }
    ]


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


async def test_a_new_question_is_named_and_so_is_one_that_changed(asked, ana, ben):
    headers = await elsewhere(lambda: bearer(ana))
    async with socket("/ws/inbox", headers) as communicator:
        assert await receive(communicator, 1) == inbox(0)
        new = await elsewhere(lambda: pause_of(asked()))
        assert await receive(communicator, 1) == inbox(1, new=[new])
        for act in (claims.claim, claims.release):
            await elsewhere(lambda act=act: act(new.pk, by=ben))
            assert await receive(communicator, 1) == inbox(1, changed=[new])


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
        for one in hub()._inbox._people.values():
            one.counted_at = -OLD
        hub()._inbox.grow_old()
        assert await receive(communicator, 1) == inbox(1, hidden)


async def test_a_page_is_brought_the_rows_of_what_changed_as_its_person_may_use_them(
    asked, ana, ben
):
    """S0-69, P7: written once; who has claimed it may answer, and nobody else."""
    pause, headers = await elsewhere(
        lambda: (pause_of(asked()), {one.username: bearer(one) for one in (ana, ben)})
    )
    key = pause.shown_id
    async with (
        socket("/ws/inbox?page", headers["ana"]) as hers,
        socket("/ws/inbox?page", headers["ben"]) as his,
    ):
        for page in (hers, his):
            [first] = await receive(page, 1)
            assert first["first"] == [[key, pause.changed_at.isoformat()]]
            assert "html" not in first
        await elsewhere(lambda: claims.claim(pause.pk, by=ben))
        told = {name: (await receive(page, 1))[0] for name, page in (("a", hers), ("b", his))}
        assert [one["changed"] for one in told.values()] == [[key]] * 2
        assert all("claimed by Ben" in one["html"][key] for one in told.values())
        assert ["data-row-answer" in one["html"][key] for one in told.values()] == [False, True]
        await elsewhere(lambda: answer(pause, by=ben))
        for page in (hers, his):
            [last] = await receive(page, 1)
            assert (last["waiting"], last["gone"], last["past"]) == (0, [key], [key])
            assert f'data-of="{key}"' in last["html"][key]
            assert "Approved" in last["html"][key]


async def test_a_page_speaks_its_own_language_and_a_program_none(asked, ana):
    pause, headers = await elsewhere(lambda: (pause_of(asked()), bearer(ana)))
    german = [*headers, (b"cookie", b"django_language=de"), (b"accept-language", b"en")]
    browser = [*headers, (b"accept-language", b"de-CH;q=0.9, en;q=0.1")]
    async with (
        socket("/ws/inbox?page", german) as one,
        socket("/ws/inbox?page", browser) as two,
        socket("/ws/inbox?page", headers) as three,
        socket("/ws/inbox", german) as program,
    ):
        for page in (one, two, three, program):
            await receive(page, 1)
        await elsewhere(lambda: answer(pause, by=ana))
        told = [(await receive(page, 1))[0] for page in (one, two, three, program)]
        words = [message.get("html", {}).get(pause.shown_id, "") for message in told]
        assert ["Freigegeben" in line for line in words] == [True, True, False, False]
        assert "Approved" in words[2]
        assert told[3] == inbox(0, pause)[0]


async def test_who_lost_the_right_meanwhile_is_shown_no_row_and_no_answer(asked, ana, ben, team):
    """P3, F4: between two looks; they hear that it went, and not what became of it."""
    pause, other, headers = await elsewhere(
        lambda: (pause_of(asked()), pause_of(asked()), bearer(ben))
    )
    async with socket("/ws/inbox?page", headers) as page:
        await receive(page, 1)
        await elsewhere(lambda: claims.claim(other.pk, by=ana))
        assert other.shown_id in (await receive(page, 1))[0]["html"]

        def lose():
            ben.groups.remove(team)
            answer(pause, by=ana)

        await elsewhere(lose)
        gone: set[str] = set()
        while gone != {pause.shown_id, other.shown_id}:
            [last] = await receive(page, 1)
            gone |= set(last["gone"])
            assert "html" not in last
        assert last["waiting"] == 0
