"""The game: moves in any order, and after each the oracle's question.

A breach tells its story, which Hypothesis makes short.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from django.core.cache import cache
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from hitl.ledger.verification import LedgerCheck
from hitl.models import Decision
from runs.models import Pause, Run
from tests.adversary import bodies, doors, moves, nature, oracle, passing, schemes, world
from tests.adversary.bodies import Pick
from tests.adversary.moves import PLAYERS, Move
from tests.adversary.nature import NATURE
from tests.adversary.played import templates
from tests.adversary.played.book import ACCOMPLICE, BOOK, REVIEWERS, TEAM
from tests.adversary.played.templates import INPUT, STEPS
from tests.adversary.reviews.schemes import OF_REVIEWS
from tests.adversary.schemes import SCHEMES, Scheme
from tests.databases.undone import undone
from tests.matrix.addresses import API
from tests.matrix.world import NOTHING
from tests.worlds.histories.whole_story import broken

WHAT = [
    "ask",
    "ask",
    "go on",
    "go on",
    "go on",
    "steer",
    "steer",
    "steer",
    "staff",
    "often",
    "often",
    "any",
    "nature",
    "look",
    "scheme",
]
"""What comes next in a game; that it is no order of its own has Hypothesis shorten stories towards
orders and answers.
"""
READABLE = [path for path in doors.reading() if path not in {"api/schema/", "api/reference/"}]
OFTEN = [
    door
    for door in moves.MOVES
    if any(
        word in door
        for word in (
            "/runs",
            "fork",
            "decisions",
            "resume",
            "work-orders",
            "import",
            "input",
            "l/<",
            "templates",
        )
    )
]
HEEDLESS = "done_without_a_decision"
TOTALS: Counter[str] = Counter()
"""What was played in this process: doors, effects, decisions, breaches."""


class Found(AssertionError):
    """A breach, seen by the oracle or by the product's own invariants, with its story."""


@contextmanager
def one_world() -> Iterator[None]:
    """Games in it find the people and the templates of the game as they were made."""
    with undone():
        Game.made = world.build()
        templates.load()
        yield


class Game:
    """A world, its oracle, and what everybody does in it."""

    made: ClassVar[world.World]
    """That in which all games of a file are played, each of which is undone."""

    def __init__(self) -> None:
        self.world = self.made.anew()
        self.oracle = oracle.Oracle(self.world)
        self.breaches: list[oracle.Breach] = []
        self.oracle.look()

    def play(
        self, door: str, who: str, body: dict[str, Any] | None = None, **named: str
    ) -> passing.Came:
        """One move of a scheme, with all that follows by itself."""
        came = passing.play(self.world, Move(door, who, named, body or {}))
        self.after()
        return came

    def happen(self, *what: str) -> None:
        for name in what:
            self.world.story.append(f"({name})")
            NATURE[name](self.world)
            self.look()

    def after(self) -> None:
        nature.settle(self.world)
        self.look()

    def look(self) -> None:
        self.breaches += self.oracle.look()

    def told(self) -> str:
        return "\n".join(
            [
                "",
                *map(str, self.breaches),
                "The story:",
                *(f"  {line}" for line in self.world.story),
            ]
        )

    def broken(self) -> list[str]:
        """What the product's own invariants and its ledger's verification find."""
        surprised = Run.objects.filter(failure_code="step_error").values_list("error", flat=True)
        assert not list(surprised), (
            f"A step of the game itself is wrong: {list(surprised)}{self.told()}"
        )
        found = broken(late=dt.timedelta(hours=2))
        return [
            # the game has heedless steps, and its oracle says whether they are told of
            *(code for code in found if code != HEEDLESS),
            *(one.code for one in LedgerCheck().breaches()),
        ]


class Adversary(RuleBasedStateMachine):
    """Hypothesis plays everybody."""

    what: Sequence[str] = WHAT
    slugs: Sequence[str] = tuple(STEPS)
    """Templates that are played."""
    plans: Sequence[Scheme] = tuple(SCHEMES.values())
    checks = True
    """Whether the product's own invariants are asked at the end."""
    tells: type[BaseException] = Found
    """What a breach raises."""

    def __init__(self) -> None:
        super().__init__()
        self.around: Any = undone()
        self.around.__enter__()
        self.game = Game()

    def teardown(self) -> None:
        try:
            for door, count in self.game.world.moved.items():
                TOTALS[door] += count
            TOTALS["moves"] += len(self.game.world.story)
            TOTALS["effects"] += len(BOOK)
            TOTALS["decisions"] += Decision.objects.count()
            TOTALS["games"] += 1
            if self.checks and not self.game.breaches and (broken := self.game.broken()):
                raise self.tells(f"{broken}{self.game.told()}")
        finally:
            self.around.__exit__(None, None, None)

    @rule(data=st.data())
    def move(self, data: st.DataObject) -> None:
        """One rule for all moves: of several, Hypothesis switches some off in each game, and
        nothing comes of most.
        """
        pick = Pick(lambda options: data.draw(st.sampled_from(options)))
        cache.clear()  # it counts requests
        what = pick(*self.what)
        came = self.one(pick, what)
        if what != "look" and pick(True, True, True, False):
            nature.settle(self.game.world)
        self.game.look()
        if self.game.breaches:
            raise self.tells(self.game.told())
        if came is not None and came.status >= 500 and came.status != 503:
            raise self.tells(f"A server error.{self.game.told()}")

    def one(self, pick: Pick, what: str) -> passing.Came | None:
        does: dict[str, Callable[[Pick, str], passing.Came | None]] = {
            "ask": self.ask,
            "go on": self.go_on,
            "steer": self.steer,
            "staff": self.staff,
            "nature": self.nature,
            "look": self.see,
            "scheme": self.scheme,
        }
        return does.get(what, self.any)(pick, what)

    def ask(self, pick: Pick, what: str) -> passing.Came:
        """An honest order, so that there is something to steal."""
        stops = pick(
            {},
            {},
            {"interrupt_before": ["act"]},
            {"interrupt_before": ["pay"]},
            {"interrupt_before": ["plan"]},
            {"interrupt_before": ["kin"]},
            {"interrupt_after": ["act"]},
        )
        given = {**INPUT, "contact": ACCOMPLICE, **bodies.wishes(pick)}
        body = {
            "template": pick(*self.slugs),
            "title": "Order",
            "input": given,
            "team": TEAM,
            **stops,
        }
        if pick(True, True, False):
            return passing.play(
                self.game.world, Move(f"POST {API}work-orders", pick("ana", "ana", "ben"), {}, body)
            )
        return self.talk(pick, body)

    def talk(self, pick: Pick, body: dict[str, Any]) -> passing.Came:
        """The same as a turn of a thread without an order."""
        passing.play(
            self.game.world,
            Move(f"POST {API}threads", "ana", {}, {"title": "A talk", "team": TEAM}),
        )
        named = {"thread_id": self.game.world.known("thread_id")["thread_id"][0]}
        turn = {name: value for name, value in body.items() if name not in {"title", "team"}}
        return passing.play(
            self.game.world, Move(f"POST {API}threads/<thr:thread_id>/runs", "ana", named, turn)
        )

    def go_on(self, pick: Pick, what: str) -> passing.Came | None:
        """Reviewers answer an open question as it asks for, so that games get behind their
        reviews.
        """
        pause = next(
            iter(Pause.objects.filter(status="open").order_by("-pk")[pick(0, 0, 1) :][:1]), None
        )
        if pause is None:
            return None
        if pause.phase.startswith("interrupted") and pick(True, False):
            door, named = f"POST {API}runs/<run:run_id>/input", {"run_id": pause.run.shown_id}
            return passing.play(self.game.world, Move(door, "ana", named, {"input": bodies.LESS}))
        came, wanted = None, schemes.wanted_by(pause, **pick({}, {}, bodies.MINE))
        others = sorted({*pause.answers} - {"approve", "answer", "cancel"})
        if others and pick("no", "no", "yes") == "yes":
            wanted = {"decision": pick(*others), "feedback": "shorter"}
        asked = pick(("ben", "cy"), ("ben", "cy"), ("dee", "cy")) if pause.review else ("ana",)
        for who in asked:
            came = passing.play(
                self.game.world,
                Move(schemes.DECIDE, who, {"pause_id": pause.shown_id}, wanted),
            )
        return came

    def staff(self, pick: Pick, what: str) -> passing.Came:
        """Somebody joins the reviewers, or leaves them."""
        groups = pick([TEAM], [TEAM, REVIEWERS])
        move = Move(
            "admin auth_user change", "root", {}, {"person": pick("ben", "cy"), "groups": groups}
        )
        return passing.play(self.game.world, move)

    def steer(self, pick: Pick, what: str) -> passing.Came:
        """Who asked for the work tries what can be named behind the review, at the newest things
        there are.
        """
        door = pick(
            schemes.TURNS,
            schemes.TURNS,
            schemes.TURNS,
            f"POST {API}runs/<run:run_id>/input",
            schemes.FORK,
            schemes.EVENT,
        )
        world, names = self.game.world, moves.named_in(door)
        known = world.known(*names) if names else {}
        named = {name: pick.of(known.get(name, [])[:3], NOTHING) for name in names}
        who = pick("ana", "ana", "dee", "oli")
        return passing.play(world, Move(door, who, named, moves.MOVES[door](world, pick, named)))

    def any(self, pick: Pick, what: str) -> passing.Came:
        door = pick(*OFTEN) if what == "often" else pick(*moves.MOVES)
        staff = door.startswith("admin")
        who = pick("oli", "oli", "oli", "ana") if staff else pick(*PLAYERS)
        who = "root" if door == "admin auth_user change" else who
        return passing.play(self.game.world, moves.make(self.game.world, door, who, pick))

    def nature(self, pick: Pick, what: str) -> None:
        name = pick(*NATURE)
        self.game.world.story.append(f"({name})")
        NATURE[name](self.game.world)

    def scheme(self, pick: Pick, what: str) -> None:
        """A plan of several moves, in the middle of all else."""
        pick(*self.plans)(self.game)

    def see(self, pick: Pick, what: str) -> passing.Came:
        """Somebody looks at something: nobody is told of threads out of sight."""
        who = pick(*PLAYERS)
        path = pick(*READABLE, *[f"{API}threads/<thr:thread_id>/export"] * 8)
        names = moves.named_in(f"GET {path}")
        known = self.game.world.known(*names) if names else {}
        named = {name: pick.of(known.get(name, [])[:8], NOTHING) for name in names}
        came = passing.read(self.game.world, who, path, named)
        self.game.world.story.append(f"{who}: GET {passing.url_of(path, named)} → {came.status}")
        hidden = oracle.out_of_sight(self.game.world, who) if came.status == 200 else {}
        told = [name for name in hidden if name in came.text and name not in named.values()]
        shown = [name for name in named.values() if name in hidden]
        if told or shown:
            self.game.breaches.append(oracle.Breach(f"{who} is told of {told + shown}"))
        return came


class Reviews(Adversary):
    """Fewer moves over fewer templates: those whose steps leave, pass and narrow their reviews.

    It takes little time, and is played once for each hole.
    """

    what = ("ask", "go on", "go on", "go on", "staff", "scheme", "scheme")
    slugs = templates.OF_REVIEWS
    plans = tuple(OF_REVIEWS)
    checks = False


class Payments(Adversary):
    """The others: for holes that are not about the reviews of templates."""

    what = tuple(name for name in WHAT if name != "staff")
    slugs = tuple(slug for slug in STEPS if slug not in templates.OF_REVIEWS)
    plans = tuple(plan for plan in Adversary.plans if plan not in OF_REVIEWS)
