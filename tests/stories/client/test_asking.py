"""A program asks and waits, and somebody else answers: the client of ours, on the real server."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from typing import Any

import httpx
import pytest

from tests.servers import torture
from tests.servers.private import free_port
from tests.servers.stack import ROOT, until
from waystation_client import (
    AsyncWaystation,
    Conflict,
    Denied,
    Forbidden,
    Invalid,
    NotAnswered,
    NotFound,
    NotWaystation,
    TimedOut,
    Unauthorized,
    Unreachable,
    aio,
    sync,
)
from waystation_client.rest import operations

pytestmark = pytest.mark.stack
TEAM = "platform"
VAT = {"type": "object", "required": ["vat_id"], "properties": {"vat_id": {"type": "string"}}}


def shown_to(reviewer, words):
    """The open question with these words, in somebody's inbox."""

    def look():
        return next((one for one in reviewer.inbox() if one["question"] == words), None)

    return until(look, what=words, every=0.2)


def test_who_asks_waits_and_somebody_else_answers(client):
    """Issue 21, item 4: ask, wait, answer, with tokens that may do no more than that."""
    ana, ben = client("ana", "ask"), client("ben", "answer")
    deploy: Any = {"content": "**Release** 4.2", "state": {"v": "4.2"}, "team": TEAM}
    question = ana.ask("Deploy 4.2?", **deploy, key="4.2")
    assert question.answer is None
    with pytest.raises(NotAnswered, match=question.pause_id):
        ana.wait(question, timeout=0.3)
    got = []
    waiting = threading.Thread(target=lambda: got.append(ana.wait(question, timeout=60)))
    waiting.start()
    seen = shown_to(ben, "Deploy 4.2?")
    made = ben.answer(seen, "approve", feedback="good")
    waiting.join(60)
    [answer] = got
    assert (answer.decision, answer.approved, answer.by) == ("approve", True, "ben")
    assert (answer.feedback, answer.state) == ("good", {"v": "4.2"})
    # under its key it is the same question, which is answered; without one it is asked anew
    again = ana.ask("Deploy 4.2?", **deploy, key="4.2")
    assert again.pause_id == question.pause_id == made["pause_id"]
    assert ana.wait(again, timeout=5) == answer
    anew = ana.ask("Deploy 4.2?", **deploy)
    assert (anew.answer, anew.pause_id == question.pause_id) == (None, False)
    ana.withdraw(anew)
    with pytest.raises(Conflict) as late:
        ben.answer(seen, "cancel")
    assert (late.value.status, late.value.code) == (409, "pause_closed")


async def test_asynchronously_data_is_asked_for_and_what_does_not_fit_is_told_by_field(
    stack, client, scoped
):
    """An answer that does not fit leaves the question open; the next one is waited for."""
    ben = client("ben", "answer")
    async with AsyncWaystation(stack.url, scoped["ana", "ask"]) as ana:
        question = await ana.ask(
            "Which VAT number?", required_inputs=VAT, run_id="vat-1", team=TEAM
        )
        waiting = asyncio.create_task(ana.wait(question, timeout=60))
        seen = await asyncio.to_thread(shown_to, ben, "Which VAT number?")
        with pytest.raises(Invalid) as refused:
            await asyncio.to_thread(ben.answer, seen, "answer", data={})
        assert (refused.value.status, list(refused.value.errors)) == (422, ["input.vat_id"])
        seen = await asyncio.to_thread(ben.question, seen["id"])
        await asyncio.to_thread(ben.answer, seen, "answer", data={"vat_id": "DE1"})
        answer = await waiting
        assert (answer.decision, answer.data) == ("answer", {"vat_id": "DE1"})
        # its run asks the next thing; the first answer is found all the same
        other = await ana.ask(
            "Which city?", required_inputs=VAT, run_id="vat-1", key="2", team=TEAM
        )
        assert (await ana.wait(question, timeout=5)).data == {"vat_id": "DE1"}
        assert (await ana.look(question)).answer == answer
        await ana.withdraw(other)
        assert (await ana.wait(other, timeout=30)).decision == "cancel"


ASKER = """
import sys
from waystation_client import Waystation
with Waystation() as waystation:
    @waystation.requires_approval(
        name="pay", team="platform", question="Pay the bill?", key=lambda amount, to: to["name"]
    )
    def pay(amount: int, to: dict) -> None:
        print("PAID", amount, to, flush=True)
    print("ASKING", flush=True)
    pay(42, to={"name": "Zoë"})
"""


def test_who_is_killed_while_waiting_finds_the_same_question(stack, client, scoped):
    """A crash of the asker asks nobody a second time, and what was approved is what runs."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "client"),
        "WAYSTATION_URL": stack.url,
        "WAYSTATION_TOKEN": scoped["ana", "ask"],
    }

    def begin():
        return subprocess.Popen(
            [sys.executable, "-c", ASKER], env=environment, stdout=subprocess.PIPE, text=True
        )

    ben = client("ben", "answer")
    first = begin()
    seen = shown_to(ben, "Pay the bill?")
    first.kill()
    assert first.communicate()[0] == "ASKING\n"
    assert '"amount": 42' in seen["pause_content"] and "Zoë" in seen["pause_content"]
    second = begin()
    assert second.stdout.readline() == "ASKING\n"
    ben.answer(seen, "approve")
    assert second.communicate(timeout=60)[0] == "PAID 42 {'name': 'Zoë'}\n"
    assert [one for one in ben.inbox() if one["question"] == "Pay the bill?"] == []
    # killed after the answer: it is found, and runs without asking again
    third = begin()
    assert third.communicate(timeout=60)[0] == "ASKING\nPAID 42 {'name': 'Zoë'}\n"


def test_a_call_runs_with_what_was_approved_or_not_at_all(client):
    """Expiry denies; a refusal denies; who changes an argument meanwhile changes nothing."""
    ana, ben = client("ana", "ask"), client("ben", "answer")
    called: list[Any] = []

    @ana.requires_approval(deadline="PT1S", question="Delete it at once?", team=TEAM)
    def hurried(what):
        called.append(what)

    with pytest.raises(Denied, match="nobody answered in time") as denied:
        hurried("everything")
    assert denied.value.answer.expired and called == []

    @ana.requires_approval(question="Delete these?", unshown=["log"], team=TEAM)
    def delete(names, *more, log):
        called.append((names, more, log))
        return "gone"

    def in_thread(names):
        got = []

        def run():
            try:
                got.append(delete(names, "c", log=called))
            except Denied as error:
                got.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        seen = shown_to(ben, "Delete these?")
        return got, thread, seen

    names = ["a", "b"]
    got, thread, seen = in_thread(names)
    names.append("the rest")
    ben.answer(seen, "approve")
    thread.join(60)
    assert got == ["gone"] and called == [(["a", "b"], ("c",), called)]
    # an approval is used once: the same call asks again, and is refused
    got, thread, again = in_thread(["a", "b"])
    assert again["id"] != seen["id"]
    ben.answer(again, "cancel", feedback="enough")
    thread.join(60)
    assert isinstance(got[0], Denied) and str(got[0]).endswith("cancel by ben: enough")
    assert len(called) == 1
    with pytest.raises(TypeError, match="no plain JSON"):
        delete(("a",), log=None)


def test_a_decision_that_is_old_answers_no_new_call(client, scoped, stack):
    """A yes of last week is none to the same call of today."""
    ben = client("ben", "answer")
    seen = []
    for _ in (1, 2):
        ana = client("ana", "ask")  # as another process

        @ana.requires_approval(
            name="pay-again", question="Pay?", key="5", valid_for=0, timeout=60, team=TEAM
        )
        def pay(amount):
            return amount

        thread = threading.Thread(target=pay, args=(5,))
        thread.start()
        seen.append(shown_to(ben, "Pay?"))
        ben.answer(seen[-1], "approve")
        thread.join(60)
    assert seen[0]["id"] != seen[1]["id"]


def test_a_stream_through_a_proxy_that_cuts_misses_nothing_and_doubles_nothing(
    stack, token, monkeypatch
):
    """P9 for the client of ours, both of it: connections are reset, half closed, silent."""
    for module in (aio, sync):
        monkeypatch.setattr(module, "SILENCE", 1.0)
    count = 300
    with sync.Waystation(stack.url, token("ana")) as ana:
        question = ana.ask("Follow me?", run_id="followed")
        run, thread = question.stream, question.standing["thread_id"]
        words = torture.WRITE.format(thread=thread, run=run, count=count, pause=0.008)
        writer = stack.start("writer", "manage.py", "shell", "-c", words)

        async def follow():
            async with torture.Proxy(stack.port, rate=0.3, seed=3).open() as proxy:
                url = f"http://127.0.0.1:{proxy.port}"

                def plainly():
                    with sync.Waystation(url, token("ana")) as one:
                        return [event["seq"] for event in one.events(run)]

                async def asynchronously():
                    async with AsyncWaystation(url, token("ana")) as one:
                        return [event["seq"] async for event in one.events(run)]

                async def ending():
                    await asyncio.to_thread(writer.wait, 60)
                    await asyncio.to_thread(ana.withdraw, question)

                found = await asyncio.gather(asyncio.to_thread(plainly), asynchronously(), ending())
                assert sum(proxy.had.values()) >= 4, proxy.had
                return found[:2]

        for seen in asyncio.run(follow()):
            assert len(seen) > count
            assert seen == list(range(1, len(seen) + 1))


def test_an_order_is_started_once_and_followed_to_its_end(stack, client):
    """A key of one's own makes one order, however often it is sent."""
    ana = client("ana")
    made = [
        ana.start(
            template="repo-tidy",
            repository_url=str(stack.folder / "celery"),
            idempotency_key="once",
        )
        for _ in range(2)
    ]
    assert made[0]["id"] == made[1]["id"]
    assert made[0]["id"] in [order["id"] for order in ana.orders()]
    ana.cancel(made[0]["id"])
    assert ana.finish(made[0]["id"], timeout=60)["failure_code"] == "cancelled_by_user"


def test_what_goes_wrong_has_a_type_and_a_code(stack, client, scoped):
    """Wrong tokens, scopes, ids and addresses, time-outs; no text holds a secret."""
    ana, reads = client("ana", "ask"), client("ana", "read")
    question = ana.ask("Who may?", team=TEAM)
    seen = ana.question(question.pause_id)
    with pytest.raises(Forbidden) as forbidden:
        ana.answer(seen, "approve")
    assert forbidden.value.code == "scope_ask_cannot_answer"
    with pytest.raises(Forbidden):
        reads.ask("May I?")
    with pytest.raises(NotFound):
        client("zoe").question(question.pause_id)
    with pytest.raises(Invalid) as invalid:
        ana.ask("What?", deadline="soon")
    assert invalid.value.errors and invalid.value.code
    secret = "wst_nobody-has-this"
    with sync.Waystation(stack.url, secret) as stranger, pytest.raises(Unauthorized) as unknown:
        stranger.ask("Hello?")
    closed = f"http://me:hidden@127.0.0.1:{free_port()}"
    with (
        sync.Waystation(closed, secret, attempts=2) as nowhere,
        pytest.raises(Unreachable) as unreachable,
    ):
        nowhere.ask("Hello?")
    for text in (str(unknown.value), str(unreachable.value), repr(nowhere), repr(stranger)):
        assert secret not in text and "hidden" not in text

    def slow(request):
        raise httpx.ReadTimeout("slow", request=request)

    def page(request):
        return httpx.Response(200, text="<h1>Hello</h1>")

    for answer, kind in ((slow, TimedOut), (page, NotWaystation)):
        http = httpx.Client(transport=httpx.MockTransport(answer))
        with pytest.raises(kind):
            sync.Waystation("http://x", secret, attempts=1, http=http).ask("Hello?")
    ana.withdraw(question)


def test_a_request_whose_answer_was_lost_is_sent_again_and_done_once(stack, token):
    """Idempotency-Key on what changes something: the second try gets the first one's answer."""
    sent = []

    class Losing(httpx.HTTPTransport):
        def handle_request(self, request):
            response = super().handle_request(request)
            response.read()
            sent.append((request.headers.get("idempotency-key"), response.status_code))
            if len(sent) == 1:
                raise httpx.ReadError("lost", request=request)
            return response

    with httpx.Client(transport=Losing()) as http:
        ana = sync.Waystation(stack.url, token("ana"), http=http)
        thread = ana.send(operations.create_thread({"title": "Told twice, made once"}))
    assert [status for _, status in sent] == [201, 201]
    assert len({key for key, _ in sent}) == 1 and sent[0][0]
    with sync.Waystation(stack.url, token("ana")) as ana:
        page = ana.send(operations.list_threads(limit=20))
    found = [one["id"] for one in page["results"] if one["title"] == "Told twice, made once"]
    assert found == [thread["id"]]
