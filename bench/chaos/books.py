"""The books: every order did what its recorded answers say, the world saw each effect, and people
were told the truth.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

from django.core.management import CommandError, call_command
from django.db.models import Prefetch

from bench.chaos import EFFECTS, ONCE, orders
from bench.chaos.asking import Asked
from bench.chaos.clients import Answer
from bench.chaos.world import Kind, World
from checkpoints import ids, store
from checkpoints.models import Event
from hitl.models import Decision
from runs.models import Pause, Run, WorkOrder
from runs.states import LIVE, FailureCode, PauseStatus

EXPIRY = "expire"
"""Stands for the answer that nobody gave."""
ENDS = {"cancel": "cancelled", EXPIRY: "expired"}
"""Answer → what it makes of the run."""


@dataclass
class Expected:
    """What must have come of a run, by its answers."""

    results: list[str] = field(default_factory=list)
    """All that its state must hold, with what it started from."""
    status: str = "completed"


class Broken(Exception):
    """The rows of an order do not even tell what to expect."""


class Books:
    def __init__(self, world: World, *, pauses: int) -> None:
        self.world, self.stack, self.pauses = world, world.stack, pauses
        self.seen: set[str] = set()
        """Effects whose results are in some run's state."""
        self.excused: set[str] = set()
        """Keys at which a run was ended with its parent, perhaps between the effect and its
        record.
        """
        self.unfinished: set[str] = set()
        """Runs of orders that are not at their end, of which nothing more is asked."""
        self.ended: dict[str, Counter[str]] = {"orders": Counter(), "children": Counter()}

    def check(self, asked: Sequence[Asked], heard: Sequence[Answer]) -> dict[str, Any]:
        return {
            **self.check_keys(asked),
            **self.check_orders(),
            **self.check_answers(heard),
            "invariants": self.check_invariants(),
        }

    def breach(self, run: Run, words: str, kind: Kind = "wrong") -> None:
        assert run.work_order is not None
        self.world.breach(
            kind, f"{run.work_order.shown_id} {run.child_name or run.shown_id} {words}"
        )

    def check_keys(self, asked: Sequence[Asked]) -> dict[str, Any]:
        """One order for each key, the one that its answer named; schedules have none."""
        by_title: defaultdict[str, list[str]] = defaultdict(list)
        asked_for = WorkOrder.objects.filter(occurrence=None)
        for order in asked_for.only("id", "title").iterator(chunk_size=500):
            by_title[order.title].append(order.shown_id)
        for request in asked:
            made = by_title.pop(request.title, [])
            if len(made) > 1:
                self.world.breach(
                    "doubled", f"{request.key} made {made}; answers {request.answers}"
                )
            if request.order not in made:
                self.world.breach(
                    "lost",
                    f"{request.key} was answered {request.order or 'nothing'}, there is"
                    f" {made}; answers {request.answers}",
                )
        if by_title:
            self.world.breach(
                "wrong", f"orders that nobody asked for: {dict(list(by_title.items())[:3])}"
            )
        again = sum(len(request.answers) - 1 for request in asked)
        return {"keys": len(asked), "asked_again": again}

    def check_orders(self) -> dict[str, Any]:
        effects = Counter((self.stack.folder / EFFECTS).read_text().split())
        once = Counter((self.stack.folder / ONCE).read_text().split())
        family = (
            Run.objects.select_related("thread__head", "work_order")
            .prefetch_related("pauses__decisions")
            .order_by("child_name")
        )
        mine = WorkOrder.objects.exclude(template__slug=orders.TREE)  # it has no effects
        for order in mine.prefetch_related(Prefetch("runs", family)).iterator(chunk_size=100):
            try:
                self.check_order(order)
            except Broken as error:
                ends = [(run.child_name, run.status, run.error) for run in order.runs.all()]
                self.world.breach("wrong", f"{order.shown_id} {error}; its runs are {ends}")
        if missing := (self.seen - set(effects)) | (self.seen - set(once)):
            self.world.breach(
                "lost", f"{len(missing)} results without an effect, such as {sorted(missing)[:3]}"
            )
        unknown = (set(effects) | set(once)) - self.seen - self.excused
        if unknown := {key for key in unknown if key.split("/")[0] not in self.unfinished}:
            self.world.breach(
                "lost", f"{len(unknown)} effects without a result, such as {sorted(unknown)[:3]}"
            )
        for key, times in once.items():
            if times > 1 and key.split("/")[0] not in self.world.died_at:
                self.world.breach(
                    "doubled",
                    f"the effect {key} under `once`, {times} times, though no process died at it",
                )
        return {
            "orders": self.ended["orders"].total(),
            "children": self.ended["children"].total(),
            "ended": {kind: dict(counts) for kind, counts in self.ended.items()},
            "results": len(self.seen),
            "effects": len(effects),
            "cut_off": len(set(effects) - self.seen),
            "attempts": effects.total(),
        }

    def check_order(self, order: WorkOrder) -> None:
        tops = [run for run in order.runs.all() if run.parent_id is None]
        if len(tops) != 1:
            raise Broken(f"has {len(tops)} runs of its own")
        if left := [run for run in order.runs.all() if run.status in LIVE]:
            for run in left:
                self.breach(run, f"is still {run.status}", "stuck")
            self.unfinished.update(run.shown_id for run in order.runs.all())
            return
        children = [run for run in order.runs.all() if run.parent_id is not None]
        self.check_run(tops[0], self.expect(tops[0], children, size=int(order.input["crew"])))
        self.ended["orders"][tops[0].status] += 1
        self.ended["children"].update(run.status for run in children)

    def expect(self, run: Run, children: list[Run], *, size: int) -> Expected:
        """Play an order as its answers say; its child runs are checked on the way."""
        expected, left = Expected(), list(children)
        for number in range(1, self.pauses + 1):
            name = f"s{number}"
            if not orders.in_crew(number):
                self.ask(run, name, expected)
            else:
                expected.results.append(f"{run.shown_id}/{name}/1")
                crew = {
                    child.child_name: child
                    for child in left
                    if child.child_name.startswith(f"{name} ")
                }
                left = [child for child in left if child.child_name not in crew]
                self.gather(run, crew, orders.members(name, size), expected)
            if expected.status != "completed":
                break
        else:
            expected.results += [f"{run.shown_id}/{name}/1" for name in orders.LAST]
        if left:
            raise Broken(
                f"has child runs that nobody started: {[child.child_name for child in left]}"
            )
        return expected

    def ask(self, run: Run, name: str, expected: Expected) -> None:
        """The step ran once for each answer, the last of which let the run go on or ended it."""
        for loop, action in enumerate(self.answers(run, name), start=1):
            expected.results.append(f"{run.shown_id}/{name}/{loop}")
            expected.status = ENDS.get(action, expected.status)

    def answers(self, run: Run, name: str) -> list[str]:
        by_step: defaultdict[str, list[str]] = defaultdict(list)
        for pause in sorted(run.pauses.all(), key=lambda pause: pause.opened_at):
            actions = [decision.action for decision in pause.decisions.all()] + [EXPIRY] * (
                pause.status == PauseStatus.EXPIRED
            )
            if len(actions) != 1:
                raise Broken(f"{pause.shown_id} has the answers {actions}")
            by_step[pause.step] += actions
        return by_step[name]

    def gather(
        self, run: Run, crew: dict[str, Run], members: dict[str, list[str]], expected: Expected
    ) -> None:
        """The child runs did each what they had to; what the completed ones did joined, in the
        order in which they were named.
        """
        if set(crew) != set(members):
            raise Broken(f"has the child runs {sorted(crew)} instead of {sorted(members)}")
        before, short = list(expected.results), False
        for name, steps in members.items():
            child, own = crew[name], Expected(list(before))
            for step in steps:
                if step == "ask":
                    self.ask(child, step, own)
                elif own.status == "completed":
                    own.results.append(f"{child.shown_id}/{step}/1")
            if (
                short
                and not child.optional
                and child.failure_code == FailureCode.CANCELLED_WITH_PARENT
            ):
                own = Expected(list(before), "cancelled")
                self.excused.add(f"{child.shown_id}/{steps[0]}/1")
            self.check_run(child, own)
            short |= own.status != "completed"
            if own.status == "completed":
                expected.results += own.results[len(before) :]
        if short and orders.CREWS[len(members)] == "fail_fast":
            expected.results, expected.status = before, "failed"

    def check_run(self, run: Run, expected: Expected) -> None:
        if run.status != expected.status:
            self.breach(run, f"is {run.status}, the answers say {expected.status}; {run.error}")
        assert run.thread.head is not None
        results: list[str] = store.load(run.thread.head).get("results", [])
        if results != expected.results:
            kind: Kind = (
                "doubled"
                if len(set(results)) < len(results)
                else "lost"
                if len(results) < len(expected.results)
                else "wrong"
            )
            self.breach(run, f"has the results {results}, expected {expected.results}", kind)
        self.seen.update(results)
        self.check_log(run)

    def check_log(self, run: Run) -> None:
        events = list(
            Event.objects.filter(thread=run.thread_id).order_by("seq").values_list("seq", "kind")
        )
        if [seq for seq, _ in events] != list(range(1, run.thread.last_seq + 1)):
            self.breach(run, "has gaps in its log")
        kinds = Counter(kind for _, kind in events)
        if (
            sum(
                kinds[kind]
                for kind in ("run_completed", "run_failed", "run_cancelled", "run_expired")
            )
            != 1
        ):
            self.breach(run, f"ended {kinds}")
        if kinds["approval_requested"] != kinds["approval_received"] + kinds["run_expired"]:
            self.breach(run, f"asked and was answered {kinds}")

    def check_answers(self, heard: Sequence[Answer]) -> dict[str, Any]:
        """What a client was told is true: an answer that was taken is the recorded one, and nothing
        else went wrong. What the rules answered nobody was told.
        """
        recorded = {
            ids.show("pse", decision.pause.pk): (
                decision.action,
                decision.decided_by.username,
                str(decision.via),
            )
            for decision in Decision.objects.filter(decided_by__isnull=False)
            .select_related("decided_by", "pause")
            .iterator(chunk_size=500)
        }
        runs = dict(Pause.objects.values_list("pk", "run"))
        verdicts: Counter[str] = Counter()
        doors: Counter[str] = Counter()
        taken: Counter[str] = Counter()
        stumbles = 0
        for answer in heard:
            pause = ids.parse("pse", answer.question.pause)
            if (
                answer.verdict in {"unreachable", "503", "507"}
                and self.world.was_away(answer.began, answer.ended)
            ) or (
                answer.verdict == "503"
                and self.world.was_held(pause, runs[pause], answer.began, answer.ended)
            ):
                stumbles += 1
                continue
            verdicts[answer.verdict] += 1
            doors[answer.door] += 1
            found = recorded.get(answer.question.pause)
            if answer.verdict == "taken":
                taken[answer.question.pause] += 1
                if found != (answer.action, answer.user, answer.door):
                    self.world.breach("lost", f"{answer} was acknowledged, recorded is {found}")
            elif answer.verdict != "refused":
                words = (
                    f"{answer.door} {answer.action}: {answer.verdict}, "
                    f"{self.world.since(answer.began):.1f} s after an outage"
                )
                self.world.breach("wrong", words)
        for shown, times in taken.items():
            if times > 1:
                self.world.breach("doubled", f"{shown} was taken {times} times")
        return {
            "decisions": len(recorded),
            "by_door": dict(Counter(door for _, _, door in recorded.values())),
            "answers": dict(verdicts),
            "answers_at": dict(doors),
            "errors_while_a_server_was_away": stumbles,
            "recorded_without_acknowledgement": len(recorded) - verdicts["taken"],
        }

    def check_invariants(self) -> str:
        """The product's own look at itself, and at its ledger."""
        words = ""
        for command in (["invariants", "--deep"], ["verify_ledger"]):
            said = StringIO()
            try:
                call_command(*command, stdout=said, stderr=said)
            except (CommandError, SystemExit) as error:
                words = f"{command[0]}: {said.getvalue()[-1500:]} {error}"
                self.world.breach("wrong", words)
        return "broken" if words else "clean"
