"""`survives_every_crash`: a workflow whose worker dies once at every moment, compared with one
whose worker never dies.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import select
import signal
import threading
import traceback
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any

from hitl.testing import effects, moments
from hitl.testing.effects import ID, EffectCall, Recorder, Watched
from hitl.testing.engine import ROUNDS, Endless, Engine
from hitl.testing.moments import Moments
from hitl.testing.playing import Play
from runs.engine.context import streaming
from runs.workflows import CANCEL

Reply = str | tuple[str, str] | Mapping[str, Any] | dt.timedelta | Callable[[Play], object]
"""What people do where the work asks: "approve"; ("revise", "shorter"); the data that was asked
for; a time that passes; or a function of the `Play`. "cancel" behind a time that passes ends the
work where it sleeps, too.
"""
MEASURED = {
    "agent": {"timestamp", "seconds"},
    "graph_runs": {"checkpoint"},
    "messages": {"ms"},
}
"""Keys of the state → what the product's own steps measure or number there: no two runs have the
same.
"""
REMEMBERS = "Where a fake remembers the run before, empty it in `fresh=`."
SHOWN = 12
"""Faults that a message tells."""
WIDE = 120
SILENCE = 60.0
"""Seconds beyond the engine's patience in which a worker's process must tell of a moment."""


class NotCrashProof(AssertionError):
    """A crash changes what the workflow comes to, or does; the message says where and by which
    line.
    """


@dataclass(frozen=True, kw_only=True)
class Survived:
    """What was tried."""

    crashes: int
    """How often the worker died: once in each run."""
    effects: Mapping[str, int]
    """Name → how often the effect happens, crash or no crash."""


@dataclass
class Ending:
    """What one run came to."""

    told: dict[str, Any]
    calls: list[EffectCall]
    moments: list[str]
    died: bool
    unapproved: list[str]
    """Effects behind a review that relied on no decision: `step: key`."""
    stands: str
    """How the work stands where nobody died: its words and the author's line, where it failed."""


@dataclass(frozen=True, order=True)
class Fault:
    what: str
    place: str
    moment: str


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A workflow that has been asked for, before a worker has begun it."""

    engine: Engine
    order: uuid.UUID
    answers: Sequence[Reply]
    fresh: Callable[[], object]
    kill: bool

    def run(self, die_at: int = 0, *, named: str = "the first run, without a crash") -> Ending:
        """Carry the work to its end, with a worker that dies at that moment (0: never)."""
        self.fresh()
        engine = self.engine.copy()
        recorder = Recorder(str(engine.folder))
        life = Moments(die_at=die_at)
        worker = _Process(engine, life, recorder) if self.kill else _Worker(engine, life)
        engine.worker = worker
        # a fork may not inherit an open connection
        place = nullcontext() if self.kill else engine.placed()
        try:
            with place, effects.recording(recorder):
                play = Play(engine, self.order)
                self._carry(play, named)
                unapproved = [f"{one.step}: {one.key}" for one in play.unapproved_effects]
                calls, names = recorder.calls, life.names
                stands = play.stands() if not die_at else ""
                return Ending(_told(play), calls, names, life.dead, unapproved, stands)
        finally:
            engine.close()

    def _carry(self, play: Play, named: str) -> None:
        """Give the answers one after the other, and let the time pass that the work waits for."""
        play.engine.work()
        answers, passed = list(self.answers), False
        for _ in range(ROUNDS):
            asked = next(iter(play.questions), None)
            passes = bool(answers) and isinstance(answers[0], dt.timedelta)
            if asked is not None or passes or (passed and answers and _ends(answers[0])):
                if not answers:
                    raise NotCrashProof(
                        f"{asked.step if asked else 'The work'} asks once more than `answers` has "
                        f"entries ({len(self.answers)}), in {named}."
                    )
                _give(play, answers.pop(0))
                passed = passes
            elif (due := play.wakes_at) is not None:
                play.engine.advance(max(due - play.engine.now(), dt.timedelta()))
            else:
                break
        else:
            raise Endless(f"After {ROUNDS} waits the work is {play.status}. {play.logs[-1]}")
        if answers:
            some = "answer" if len(answers) == 1 else "answers"
            words = f"The work ended {play.status} with {len(answers)} {some} left, in {named}."
            raise NotCrashProof(f"{words} {play.error}".strip())


def survives_every_crash(
    workflow: Any,
    *,
    answers: Sequence[Reply] = (),
    watch: Sequence[Watched] = (),
    idempotent: Sequence[Watched] = (),
    fresh: Callable[[], object] = lambda: None,
    ignore: Sequence[str] = (),
    ends: str = "completed",
    kill: bool = False,
    engine: Engine | None = None,
    most: int = 500,
    **about: Any,
) -> Survived:
    """Run a workflow once for every moment at which its worker may die, and compare each run with
    one in which nobody dies.

    The moments are the two sides of each commit of the worker, and the end of each effect; where
    no step is at work between two commits, they share a side. The worker dies there without another
    statement, its lease runs out, and another worker goes on with the same answers. The state, the
    decisions and the end must be the same, and each effect must have happened as often. None may
    have been done behind a review without a decision.

    Args:
        answers: what people do, in order: see `Reply`.
        watch: functions (or their dotted names) whose calls are effects outside. A function given
            to `context.once` may be called again where the worker died before its result was
            recorded; then `context.key` must be among its arguments, so that the receiver can tell.
            Effects told by `outside` count too.
        idempotent: functions that are watched as well, and may be repeated with the same arguments.
        fresh: called before each run: empties the fakes.
        ignore: keys of the state, at any depth, that may differ, such as `sent_at`.
        ends: the status that the work must come to.
        kill: the worker is a process of its own that kills itself with SIGKILL; then fakes must
            keep in files what they keep.
        engine: the engine to begin with, such as one on PostgreSQL.
        most: moments at most.
        about: as for `play`.
    Raises:
        NotCrashProof: with each fault, its moment, and the author's line to change.
    """
    engine = engine or Engine.on_sqlite()
    engine.frozen = engine.now()
    with effects.watched([*watch, *idempotent]) as names:
        order = engine.start(workflow, **about)
        trial = Trial(engine=engine, order=order, answers=answers, fresh=fresh, kill=kill)
        whole = trial.run()
        if whole.told["status"] != ends:
            raise NotCrashProof(
                f"Without any crash the work ended {whole.told['status']}, not {ends}: "
                f"{whole.stands}"
            )
        if whole.unapproved:
            raise NotCrashProof(
                "Without any crash, effects behind a review relied on no decision: "
                f"{', '.join(whole.unapproved)}. Call context.require_approval before them, or "
                "say optional=True there."
            )
        try:
            again = trial.run(named="the second run, without a crash")
        except NotCrashProof as error:
            raise NotCrashProof(f"{error} {REMEMBERS}") from error
        _check_same_without_a_crash(whole, again, ignore)
        if len(whole.moments) > most:
            raise NotCrashProof(
                f"The work has {len(whole.moments)} moments, and `most` is {most}. Test it with "
                "less input."
            )
        allowed = set(names[len(watch) :])
        faults: list[Fault] = []
        for number in range(1, len(whole.moments) + 1):
            try:
                ending = trial.run(number, named="the run whose worker died there")
            except NotCrashProof as error:
                faults.append(Fault(str(error), "", whole.moments[number - 1]))
                continue
            moment = whole.moments[number - 1]
            faults += _compare(whole, ending, moment=moment, allowed=allowed, ignore=ignore)
    if faults:
        raise NotCrashProof(_message(faults, len(whole.moments)))
    return Survived(crashes=len(whole.moments), effects=Counter(call.name for call in whole.calls))


class _Worker:
    """Works in this process, dies once, and is followed by a worker that does not die."""

    def __init__(self, engine: Engine, life: Moments) -> None:
        self.engine, self.life = engine, life

    def __call__(self) -> None:
        if self.life.dead:
            self.engine.work_off()
            return
        self.work()
        if self.died():
            self.engine.reconnect()
            self.engine.lose_workers()
            self.engine.work_off()

    def died(self) -> bool:
        return self.life.dead

    def work(self) -> None:
        with moments.counted(self.life):
            self.engine.work_off()


class _Process(_Worker):
    """Works in a child process, which ends by SIGKILL."""

    def __init__(self, engine: Engine, life: Moments, recorder: Recorder) -> None:
        super().__init__(engine, life)
        self.recorder = recorder

    def __call__(self) -> None:
        self._fork()
        if self.life.dead:
            self.engine.lose_workers()
            self._fork()

    def _fork(self) -> None:
        reads, writes = os.pipe()
        child = os.fork()
        if not child:
            os.close(reads)
            self._be_the_child(writes)
        os.close(writes)
        journal = self._read(reads, child)
        _, status = os.waitpid(child, 0)
        for kind, said in map(json.loads, journal.splitlines()):
            if kind == "moment":
                self.life.names.append(said)
            elif kind == "call":
                self.recorder.calls.append(EffectCall(**said))
            else:
                raise RuntimeError(f"The worker's process failed:\n{said}")
        self.life.dead = self.life.dead or os.waitstatus_to_exitcode(status) == -signal.SIGKILL

    def _read(self, reads: int, child: int) -> str:
        """Read what the child tells until it ends; one that falls silent is ended."""
        told = b""
        silence = self.engine.patience + SILENCE
        try:
            while select.select([reads], [], [], silence)[0]:
                if not (piece := os.read(reads, 65536)):
                    return told.decode()
                told += piece
        finally:
            os.close(reads)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise Endless(f"A worker's process said nothing for {silence:g} s.")

    def _be_the_child(self, writes: int) -> None:
        def tell(kind: str, said: Any) -> None:
            os.write(writes, f"{json.dumps([kind, said])}\n".encode())

        life = self.life
        try:
            streaming._changed = threading.Condition()  # a thread of the parent may hold the other
            if life.dead:
                self.recorder.tell = lambda call: tell("call", asdict(call))
                self.engine.work_off()
            else:
                life.die = lambda: os.kill(os.getpid(), signal.SIGKILL)
                life.tell = lambda name: tell("moment", name)
                self.recorder.tell = lambda call: tell("call", asdict(call))
                self.work()
        except BaseException:  # noqa: BLE001  # the parent raises it; a fork may not go on as two
            tell("error", traceback.format_exc())
        os._exit(0)


def _ends(reply: Reply) -> bool:
    """Whether it ends the work wherever that stands."""
    return reply == CANCEL or (isinstance(reply, tuple) and reply[0] == CANCEL)


def _give(play: Play, reply: Reply) -> None:
    if _ends(reply):
        play.cancel(reply[1] if isinstance(reply, tuple) else "")
    elif isinstance(reply, str):
        play.decide(reply)
    elif isinstance(reply, tuple):
        play.decide(reply[0], words=reply[1])
    elif isinstance(reply, dt.timedelta):
        play.engine.advance(reply)
    elif isinstance(reply, Mapping):
        play.answer(**reply)
    else:
        reply(play)


def _told(play: Play) -> dict[str, Any]:
    """What a run came to, without ids that differ by themselves."""
    told = {
        "status": play.status,
        "failure_code": play.failure_code,
        "error": play.error,
        "state": {
            key: _without(value, MEASURED.get(key, set())) for key, value in play.state.items()
        },
        "decisions": play.decisions,
    }
    text = json.dumps(told).replace(str(play.engine.folder), "")
    plain: dict[str, Any] = json.loads(ID.sub("an id", text))
    return plain


def _without(value: Any, names: set[str]) -> Any:
    """A JSON value without keys of these names, at any depth."""
    if isinstance(value, dict):
        return {key: _without(one, names) for key, one in value.items() if key not in names}
    return [_without(one, names) for one in value] if isinstance(value, list) else value


def _check_same_without_a_crash(one: Ending, other: Ending, ignore: Sequence[str]) -> None:
    """Raise NotCrashProof where a workflow differs from itself."""
    found = differences(one.told, other.told, ignore)
    before, after = Counter(map(_what, one.calls)), Counter(map(_what, other.calls))
    found += [
        f"the arguments of {call.name}, {call.place}"
        for call in other.calls
        if after[_what(call)] > before[_what(call)]
    ]
    if found:
        raise NotCrashProof(
            "Two runs without any crash differ, so nothing can be said of runs with one:\n"
            + "\n".join(f"  {line}" for line in found[:SHOWN])
            + "\nA step depends on its state and its context alone. Name in `ignore` what may "
            f"differ, such as a time. {REMEMBERS}"
        )


def _what(call: EffectCall) -> tuple[str, str]:
    return call.name, call.arguments


def _compare(
    whole: Ending, ending: Ending, *, moment: str, allowed: set[str], ignore: Sequence[str]
) -> list[Fault]:
    """What is wrong with a run whose worker died."""
    faults = [
        Fault(f"{line} (without a crash → with it)", "", moment)
        for line in differences(whole.told, ending.told, ignore)
    ]
    usual, here = Counter(map(_what, whole.calls)), Counter(map(_what, ending.calls))
    for call in {_what(call): call for call in [*whole.calls, *ending.calls]}.values():
        times, wanted = here[_what(call)], usual[_what(call)]
        if times < wanted:
            problem = f"{call.name} was lost: done {_times(times)}, not {_times(wanted)}"
            faults.append(
                Fault(problem, f"{call.place}: do it in the function of context.once", moment)
            )
        elif times > wanted and not wanted:
            problem = f"{call.name} was done with other arguments than without the crash"
            faults.append(Fault(problem, f"{call.place}: {_advice(call)}", moment))
        elif times > wanted and not call.keyed and call.name not in allowed:
            problem = f"{call.name} was doubled: done {_times(times)}, not {_times(wanted)}"
            faults.append(Fault(problem, f"{call.place}: {_advice(call)}", moment))
    return faults


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _advice(call: EffectCall) -> str:
    if not call.recorded:
        return "put this into context.once"
    return (
        "the worker died after the call and before context.once recorded it; hand context.key to "
        "the receiver, or name the function in `idempotent`"
    )


def _message(faults: Sequence[Fault], crashes: int) -> str:
    by_fault: dict[tuple[str, str], list[str]] = {}
    for fault in faults:
        by_fault.setdefault((fault.what, fault.place), []).append(fault.moment)
    lines = [
        f"  {what}\n{f'    {place}{chr(10)}' if place else ''}    the worker died {_short(at)}"
        for (what, place), at in list(by_fault.items())[:SHOWN]
    ]
    if len(by_fault) > SHOWN:
        lines.append(f"  and {len(by_fault) - SHOWN} more")
    dead = len({fault.moment for fault in faults})
    return f"The workflow does not survive every crash ({dead} of {crashes}):\n" + "\n".join(lines)


def _short(places: Sequence[str]) -> str:
    return "; ".join(
        [*places[:2], *([f"and at {len(places) - 2} others"] if len(places) > 2 else [])]
    )


def differences(one: Any, other: Any, ignore: Sequence[str] = (), at: str = "") -> list[str]:
    """Where two JSON values differ, by path."""
    if isinstance(one, dict) and isinstance(other, dict):
        return [
            line
            for key in sorted({*one, *other})
            if key not in ignore
            for line in differences(one.get(key), other.get(key), ignore, f"{at}/{key}")
        ]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [
            line
            for number, (left, right) in enumerate(zip(one, other, strict=True))
            for line in differences(left, right, ignore, f"{at}/{number}")
        ]
    return [] if one == other else [f"{at}: {_shown(one)} → {_shown(other)}"]


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= WIDE else f"{text[:WIDE]}…"
