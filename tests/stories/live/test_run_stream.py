"""The client `run-stream.js` in a browser, against a server of the test's own making: cut at every
event, on every way, and refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, WebSocketRoute

from tests.servers.stack import ROOT

pytestmark = [pytest.mark.stack, pytest.mark.one_database]
SITE = "http://waystation.test"
OPEN = """(options) => import("/static/js/run-stream.js").then(({ openStream, savedCheckpoint }) => {
  const told = { seqs: [], states: [], kinds: [], closed: null };
  window.told = told;
  window.saved = savedCheckpoint;
  window.stream = openStream({
    resume: { maxAttempts: 50, delayMs: 1 }, ...options,
    onEvent: ({ seq }) => told.seqs.push(seq),
    on: { log: () => told.kinds.push("log") },
    onState: (state) => told.states.push(state),
    onClosed: (problem) => { told.closed = problem.code; },
  });
})"""

BY_KIND = """(kinds) => import("/static/js/run-stream.js").then(({ openStream, savedCheckpoint }) => {
  window.heard = [];
  window.waits = [];
  const hear = ({ event, data }) => {
    window.heard.push([event, data]);
    const tells = event === "run_paused" || (event === "checkpoint_created" && data.status === "completed");
    if (tells) window.waits.push(savedCheckpoint("thr_1").status);
  };
  window.stream = openStream({ run: "run_1", on: Object.fromEntries(kinds.map((kind) => [kind, hear])) });
})"""


def event(seq: int, kind: str = "log", **data: Any) -> dict[str, Any]:
    return {
        "event": kind,
        "data": data,
        "seq": seq,
        "run_id": "run_1",
        "thread_id": "thr_1",
        "at": "2026-01-01T00:00:00+00:00",
    }


def story(length: int) -> list[dict[str, Any]]:
    ending = [
        event(length - 1, "run_completed"),
        event(
            length,
            "checkpoint_created",
            checkpoint_id="ckpt_9",
            status="completed",
            loop_num=2,
            node_id="plan",
        ),
    ]
    return [*(event(seq) for seq in range(1, length - 1)), *ending]


class Server:
    """What the browser reaches: the ways that are open, and what is told over them."""

    def __init__(self, page: Page, events: list[dict[str, Any]]) -> None:
        self.events, self.page = events, page
        self.sockets: Callable[[WebSocketRoute, int], None] = lambda socket, after: socket.close(
            code=1011
        )
        self.stream: Callable[[Route, int], None] = lambda route, after: route.abort()
        self.poll: Callable[[Route, int], None] = lambda route, after: route.abort()
        self.asked: list[str] = []
        page.route(f"{SITE}/**", self._serve)
        page.route_web_socket(re.compile("^ws://waystation.test/"), self._socket)
        page.goto(f"{SITE}/")
        page.evaluate("localStorage.clear()")

    def _serve(self, route: Route) -> None:
        path = route.request.url.removeprefix(SITE)
        if path.startswith("/static/"):
            route.fulfill(path=ROOT / path.lstrip("/"), content_type="text/javascript")
        elif path.endswith("/stream"):
            self.asked.append("stream")
            self.stream(route, int(route.request.headers.get("last-event-id", 0)))
        elif "/events?" in path:
            self.asked.append("poll")
            self.poll(route, int(path.partition("after=")[2]))
        else:
            route.fulfill(body="<!doctype html><title>x</title>", content_type="text/html")

    def _socket(self, socket: WebSocketRoute) -> None:
        self.asked.append("socket")
        self.sockets(socket, int(socket.url.partition("after=")[2]))

    def after(self, seq: int) -> list[dict[str, Any]]:
        return self.events[seq:]

    def open(self, **options: Any) -> None:
        self.page.evaluate(OPEN, {"run": "run_1", **options})

    def told(self, until: str = "ended") -> dict[str, Any]:
        self.page.wait_for_function(
            "state => window.stream.state === state", arg=until, timeout=20_000
        )
        found: dict[str, Any] = self.page.evaluate("window.told")
        return found


def frames(events: list[dict[str, Any]]) -> str:
    return "retry: 2000\n\n" + "".join(
        f"id: {one['seq']}\nevent: {one['event']}\ndata: {json.dumps(one)}\n\n" for one in events
    )


@pytest.fixture(scope="module")
def window(chromium: Browser) -> Iterator[Page]:
    """One for all tests, since a page in a new one costs three times as much."""
    context = chromium.new_context()
    yield context.new_page()
    context.close()


@pytest.fixture
def page(window: Page) -> Iterator[Page]:
    """What a test has left goes with its document; of ways that were opened the last one counts."""
    yield window
    forgotten: Any = window._impl_obj
    forgotten.remove_all_listeners()
    window.goto("about:blank")
    window.unroute_all()


def test_cut_at_every_single_event_it_sees_each_once(page):
    """S2-31, P9, S0-6, S0-32, S0-33: the socket gives one event, an old one again, and breaks.

    The checkpoint, run and thread are kept.
    """
    server = Server(page, story(25))

    def one_at_a_time(socket: WebSocketRoute, after: int) -> None:
        if rest := server.after(after):
            socket.send(json.dumps(server.events[max(0, after - 1)]))
            socket.send(json.dumps(rest[0]))
            socket.close(code=1006 if after % 2 else 1012)
        else:
            socket.close(code=1000)

    server.sockets = one_at_a_time
    server.open()
    told = server.told()
    assert told["seqs"] == list(range(1, 26))
    assert told["states"][-1] == "ended"
    assert "reconnecting" in told["states"]
    assert len(told["kinds"]) == 23, "callbacks by kind"
    assert server.page.evaluate("window.saved('thr_1')") == {
        "id": "ckpt_9", "status": "completed", "loopNum": 2, "nodeId": "plan", "runId": "run_1",
        "seq": 25,
    }  # fmt: skip  # S0-37, S0-43


@pytest.mark.parametrize("ending", ["run_completed", "run_failed"])
def test_every_kind_has_its_callback_in_the_order_of_the_log(page, ending):
    """The client's half of a conversation's page; each event comes as `{event, data}`, also where
    the run fails.

    S0-2, S0-3, S0-4, S0-5, S0-20, S0-21, S0-23, S0-24, S0-26, S0-28, S0-34, S0-35, S0-36, S0-38.
    """
    said: list[tuple[str, dict[str, Any]]] = [
        ("streaming_chunk", {"content": "Let me "}), ("streaming_chunk", {"content": "look."}),
        ("tool_call_started", {"tool": "search", "loop_num": 1}), ("tool_call_completed",
        {"tool": "search", "result": "3 found"}),
        ("checkpoint_created", {"checkpoint_id": "ckpt_1", "status": "active", "loop_num": 1,
        "node_id": "agent"}),
        ("approval_requested", {"prompt": "Which of them?"}),
        ("checkpoint_created", {"checkpoint_id": "ckpt_2", "status": "pending_input", "loop_num": 2,
        "node_id": "agent"}),
        ("run_paused", {}), ("approval_received", {"decision": "approve"}), (ending,
        {"status": "success"}),
        ("checkpoint_created", {"checkpoint_id": "ckpt_3", "status": "completed", "loop_num": 2,
        "node_id": "agent"}),
    ]  # fmt: skip
    server = Server(
        page, [event(seq, kind, **data) for seq, (kind, data) in enumerate(said, start=1)]
    )

    def tell(socket: WebSocketRoute, after: int) -> None:
        for one in server.after(after):
            socket.send(json.dumps(one))
        socket.close(code=1000)

    server.sockets = tell
    page.evaluate(BY_KIND, sorted({kind for kind, _ in said}))
    page.wait_for_function("window.stream.state === 'ended'")
    assert page.evaluate("window.heard") == [[kind, data] for kind, data in said]
    assert page.evaluate("window.waits") == ["pending_input", "completed"], (
        "a page that is opened again knows that it waits"
    )


def test_who_lost_the_server_for_good_knows_the_checkpoint_to_go_on_from(page):
    """S0-39, S0-43, S2-15: the socket closes during a run; told so, the page may offer to resume
    it.
    """
    server = Server(
        page,
        [
            event(
                1,
                "checkpoint_created",
                checkpoint_id="ckpt_1",
                status="pending_input",
                loop_num=3,
                node_id="agent",
            )
        ],
    )

    def once(socket: WebSocketRoute, after: int) -> None:
        if not after:
            socket.send(json.dumps(server.events[0]))
        socket.close(code=1006)

    server.sockets = once
    server.open(resume={})
    assert server.told("closed")["closed"] == "gave_up"
    saved = page.evaluate("window.saved('thr_1')")
    assert (saved["id"], saved["status"], saved["loopNum"], saved["runId"]) == (
        "ckpt_1",
        "pending_input",
        3,
        "run_1",
    )


def test_without_sockets_it_reads_server_sent_events(page):
    """S2-9: with `Last-Event-ID`; cut in the middle of a frame; 204 is the end."""
    server = Server(page, story(9))

    def stream(route: Route, after: int) -> None:
        rest = server.after(after)
        if not rest:
            route.fulfill(status=204)
            return
        whole = frames(rest[:2]) + frames(rest[2:3])[15:-9]
        route.fulfill(status=200, content_type="text/event-stream", body=whole)

    server.stream = stream
    server.open()
    told = server.told()
    assert told["seqs"] == list(range(1, 10))
    assert "live" in told["states"]
    assert "polling" not in told["states"]


def test_with_neither_it_polls_and_goes_back_when_it_can(page):
    """S4-47, S4-67: with ETag and 304; the state says so."""
    server = Server(page, story(6))
    etags: list[str | None] = []
    shown = 3

    def poll(route: Route, after: int) -> None:
        etags.append(route.request.headers.get("if-none-match"))
        if etags[-1] == f'"{shown}"':
            route.fulfill(status=304)
        else:
            route.fulfill(
                status=200,
                json={"results": server.events[after:shown]},
                headers={"ETag": f'"{shown}"'},
            )

    server.poll = poll
    server.open()
    server.page.wait_for_function("window.told.seqs.length === 3")
    assert server.told("polling")["states"][-1] == "polling"
    server.page.wait_for_function("window.stream.cursor === 3")
    while '"3"' not in etags:
        server.page.wait_for_timeout(100)

    def whole(socket: WebSocketRoute, after: int) -> None:
        for one in server.after(after):
            socket.send(json.dumps(one))
        socket.close(code=1000)

    server.sockets = whole
    told = server.told()
    assert told["seqs"] == [1, 2, 3, 4, 5, 6]


TICKS = """() => {
  const real = window.setTimeout, every = 2000; // a poll's interval passes at once, and each is counted
  window.intervals = 0;
  window.setTimeout = (run, ms) => (ms === every ? (window.intervals += 1, real(run, 5)) : real(run, ms));
}"""
PASS = (
    "async () => { for (let tick = 0; tick < 30; tick += 1) await new Promise((next) => "
    "setTimeout(next, 2000)); }"
)


def test_it_polls_every_two_seconds_and_only_while_no_socket_is_there(page):
    """C2: pushed where that is possible.

    A poll comes after two seconds, again and again; and none any more once a socket is open.
    """
    server = Server(page, story(6))
    server.poll = lambda route, after: route.fulfill(
        status=200, json={"results": []}, headers={"ETag": '"0"'}
    )
    page.evaluate(TICKS)
    server.open()
    page.wait_for_function("window.intervals >= 3")
    assert server.told("polling")["seqs"] == [] and server.asked.count("poll") >= 3
    opened: list[WebSocketRoute] = []

    def stay(socket: WebSocketRoute, after: int) -> None:
        opened.append(socket)
        socket.send(json.dumps({"type": "ping"}))

    server.sockets = stay
    server.told("live")
    page.evaluate(PASS)
    asked = server.asked.count("poll")
    page.evaluate(PASS)
    assert (server.asked.count("poll"), server.told("live")["states"][-1]) == (asked, "live"), (
        "sixty seconds without a poll"
    )
    for one in server.events:
        opened[-1].send(json.dumps(one))
    opened[-1].close(code=1000)
    assert server.told()["seqs"] == [1, 2, 3, 4, 5, 6]
    assert server.asked.count("poll") == asked


@pytest.mark.parametrize(
    ("close", "code"),
    [
        (4400, "cursor_invalid"),
        (4401, "not_authenticated"),
        (4403, "forbidden"),
        (4404, "not_found"),
    ],
)
def test_a_refusal_is_final_and_says_why(page, close, code):
    server = Server(page, [])
    server.sockets = lambda socket, after: socket.close(code=close)
    server.open()
    told = server.told("closed")
    assert told["closed"] == code
    server.page.wait_for_timeout(50)
    assert server.asked == ["socket"]


@pytest.mark.parametrize(("resume", "attempts"), [({}, 1), ({"maxAttempts": 3, "delayMs": 1}, 4)])
def test_it_gives_up_after_so_many_attempts(page, resume, attempts):
    """S2-14, S2-15: none by default."""
    server = Server(page, [])
    page.evaluate(SOON)
    server.open(resume=resume)
    assert server.told("closed")["closed"] == "gave_up"
    assert server.asked.count("socket") == attempts


def test_a_hidden_page_does_not_poll(page):
    server = Server(page, story(4))
    page.evaluate("Object.defineProperty(document, 'hidden', { get: () => window.away ?? true })")
    page.evaluate(SOON)
    server.poll = lambda route, after: route.fulfill(
        status=200, json={"results": server.after(after)}
    )
    server.open()
    server.page.wait_for_timeout(300)
    assert "poll" not in server.asked
    server.page.evaluate(
        "window.away = false; document.dispatchEvent(new Event('visibilitychange'))"
    )
    assert server.told()["seqs"] == [1, 2, 3, 4]


def test_answers_go_over_the_socket_and_come_back_as_what_was_committed(page):
    """S0-41, S4-8."""
    server = Server(page, [])
    heard: list[dict[str, Any]] = []

    def reply(socket: WebSocketRoute, text: str) -> None:
        message = json.loads(text)
        heard.append(message)
        if message["type"] == "input":
            socket.send(
                json.dumps(
                    {
                        "type": "refused",
                        "id": message["id"],
                        "problem": {"status": 409, "code": "pause_closed", "detail": "Ben won"},
                    }
                )
            )
        else:
            socket.send(
                json.dumps({"type": "accepted", "id": message["id"], "result": {"id": "dec_1"}})
            )

    server.sockets = lambda socket, after: socket.on_message(lambda text: reply(socket, str(text)))
    server.open()
    server.told("live")
    assert page.evaluate("stream.decide('pse_1', { decision: 'approve', revision: 2 })") == {
        "id": "dec_1"
    }
    assert (
        page.evaluate(
            "stream.input('yes').catch((error) => error.problem.code + ': ' + error.message)"
        )
        == "pause_closed: Ben won"
    )
    assert heard[0] == {
        "type": "decision",
        "pause_id": "pse_1",
        "decision": "approve",
        "revision": 2,
        "id": "m1",
    }


def test_an_answer_on_a_socket_that_breaks_is_not_said_to_have_worked(page):
    """F28."""
    server = Server(page, [])
    server.sockets = lambda socket, after: socket.on_message(lambda text: socket.close(code=1006))
    server.open()
    server.told("live")
    assert (
        page.evaluate(
            "stream.decide('pse_1', { decision: 'approve' }).catch((error) => error.problem.code)"
        )
        == "connection_lost"
    )


SOON = """() => {
  const real = window.setTimeout, limit = 5000; // what an attempt may take stays as it is; waits pass at once
  window.setTimeout = (run, ms) => real(run, ms === limit ? ms : Math.min(ms, 20));
}"""
CLOCK = """(dice) => {
  window.now = 1;
  window.rounds = [];
  Date.now = () => window.now;
  Math.random = () => dice;
  const real = window.setTimeout, limit = 5000; // what an attempt may take stays as it is; waits pass at once
  window.setTimeout = (run, ms) => (ms === limit ? real(run, ms) : real(() => { window.now += ms; run(); }, 1));
  window.WebSocket = class extends WebSocket { constructor(...all) { super(...all); window.rounds.push(window.now); } };
}"""
BRIEFLY = """() => {
  const real = window.setTimeout;
  window.setTimeout = (run, ms) => real(run, Math.min(ms, 20)); // the patience with the answer, and nothing else
  window.dispatchEvent(new Event("online"));
  window.setTimeout = real;
}"""


@pytest.mark.parametrize(("dice", "jitter"), [(0, 0.75), (0.999999, 1.25)])
def test_waits_double_up_to_ten_seconds_with_jitter(page, dice, jitter):
    """S2-14: clients that lost a server together do not come back together."""
    server = Server(page, [event(1)])

    def once(socket: WebSocketRoute, after: int) -> None:
        if not after:
            socket.send(json.dumps(server.events[0]))
        socket.close(code=1006)

    server.sockets = once
    page.evaluate(CLOCK, dice)
    server.open(resume={"maxAttempts": 7, "delayMs": 1000})
    server.told("closed")
    rounds = page.evaluate("window.rounds")
    waits = [round(late - early) for early, late in pairwise(rounds)]
    assert waits[0] == round(1000 * jitter), "the first time after it worked"
    asked_for = [min(1000 * 2**number, 10_000) * jitter for number in range(len(waits) - 1)]
    polls = [2000 * -(-wait // 2000) for wait in asked_for]  # it polls meanwhile, each 2 s
    assert waits[1:] == polls


def test_who_comes_back_to_a_page_is_not_told_live_by_a_dead_socket(page):
    """The laptop was closed, or the network was another: the socket has to answer, else there is
    another one.
    """
    server = Server(page, story(4))
    opened: list[WebSocketRoute] = []
    pings: list[str] = []

    def deaf(socket: WebSocketRoute, after: int) -> None:
        opened.append(socket)
        if len(opened) == 1:
            socket.send(json.dumps(server.events[0]))
            socket.on_message(lambda text: pings.append(str(text)))
        else:
            for one in server.after(after):
                socket.send(json.dumps(one))
            socket.close(code=1000)

    server.sockets = deaf
    server.open()
    page.wait_for_function("window.told.seqs.length === 1")
    assert server.told("live")["states"] == ["live"]
    page.evaluate(BRIEFLY)
    assert server.told()["seqs"] == [1, 2, 3, 4]
    assert [json.loads(text) for text in pings] == [{"type": "ping"}]


def test_a_socket_that_answers_stays(page):
    server = Server(page, [event(1)])

    def polite(socket: WebSocketRoute, after: int) -> None:
        socket.on_message(lambda text: socket.send('{"type": "pong", "id": null}'))
        socket.send(json.dumps(server.events[0]))

    server.sockets = polite
    server.open()
    page.wait_for_function("window.told.seqs.length === 1")
    page.evaluate(
        "window.cleared = 0; window.clearTimeout = ((real) => (one) => { window.cleared += "
        "1; real(one); })(window.clearTimeout)"
    )
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for_function("window.cleared >= 2")
    assert (server.told("live")["states"], server.asked) == (["live"], ["socket"])


def test_an_online_event_ends_the_wait(page):
    server = Server(page, story(4))
    server.open(resume={"maxAttempts": 3, "delayMs": 60_000})
    page.wait_for_function("window.stream.state === 'reconnecting'")

    def whole(socket: WebSocketRoute, after: int) -> None:
        for one in server.after(after):
            socket.send(json.dumps(one))
        socket.close(code=1000)

    server.sockets = whole
    server.poll = lambda route, after: route.fulfill(
        status=200, json={"results": server.after(after)}
    )
    page.evaluate("window.dispatchEvent(new Event('online'))")
    assert server.told()["seqs"] == [1, 2, 3, 4]


@pytest.mark.parametrize("way", ["socket", "stream", "poll"])
def test_a_callback_that_throws_costs_no_event_and_no_connection(page, way):
    """It is reported, on every way; the callback by kind is called all the same."""
    server, errors = Server(page, story(5)), []
    page.on("pageerror", lambda error: errors.append(str(error)))

    def whole(socket: WebSocketRoute, after: int) -> None:
        for one in server.after(after):
            socket.send(json.dumps(one))
        socket.close(code=1000)

    def stream(route: Route, after: int) -> None:
        rest = server.after(after)
        route.fulfill(
            status=200 if rest else 204,
            content_type="text/event-stream",
            body=frames(rest) if rest else "",
        )

    if way == "socket":
        server.sockets = whole
    elif way == "stream":
        server.stream = stream
    else:
        server.poll = lambda route, after: route.fulfill(
            status=200, json={"results": server.after(after)}
        )
    page.evaluate(
        """() => import("/static/js/run-stream.js").then(({ openStream }) => {
          window.seqs = [];
          const fail = () => { throw new Error("mine"); };
          window.stream = openStream({ run: "run_1", resume: { maxAttempts: 5, delayMs: 1 }, onEvent: fail,
            on: { log: ({ seq }) => window.seqs.push(seq) } });
        })"""
    )
    page.wait_for_function("window.stream.state === 'ended'", timeout=20_000)
    assert page.evaluate("window.seqs") == [1, 2, 3]
    assert errors == ["mine"] * 5
    assert server.asked.count(way) <= 2


def test_where_the_browser_keeps_nothing_it_follows_all_the_same(page):
    """A frame in a sandbox: even to look for its storage is an error there."""
    server = Server(page, story(4))
    page.evaluate(
        "Object.defineProperty(window, 'localStorage', { get() { throw new "
        "DOMException('no', 'SecurityError'); } })"
    )
    server.poll = lambda route, after: route.fulfill(
        status=200, json={"results": server.after(after)}
    )
    server.open()
    assert server.told()["seqs"] == [1, 2, 3, 4]
    assert page.evaluate("window.saved('thr_1')") is None


def test_who_reads_an_older_run_again_does_not_forget_the_newer_one(page):
    """S0-43."""
    server = Server(page, story(4))
    server.poll = lambda route, after: route.fulfill(
        status=200, json={"results": server.after(after)}
    )
    newer = {"id": "ckpt_newer", "status": "pending_input", "seq": 90}
    page.evaluate(
        "(newer) => localStorage.setItem('checkpoint_thr_1', JSON.stringify(newer))", newer
    )
    server.open()
    server.told()
    assert page.evaluate("window.saved('thr_1')") == newer
