"""What was done that nobody let happen: the book of effects against raw rows, without a line of the
product's own approval code.

The oracle is asked after every move. People's rights change meanwhile, so it looks at each new
decision, vote and effect at once, with who was in which group before and after that move; what it
found stays.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import Any

from django.contrib.auth.models import User

from checkpoints import ids, store
from checkpoints.models import Checkpoint, Memo, Thread
from checkpoints.store.prepared_queries import PreparedValues
from hitl.models import Decision, Delegation, EarlyAnswer, Vote
from runs.models import Definition, Pause, Run
from tests.adversary.played.book import ASKED, BOOK, SUPPLIER, Effect, acted_on, arguments_of
from tests.adversary.played.reviewed import GRANTED
from tests.adversary.world import World

NO_APPROVAL = {"revise", "cancel", "undo", "step_around"}
NO_VERDICT = {"interrupted_before", "interrupted_after", "suspended", "stepped_around"}
"""Phases of questions that are about no step's content."""
GUESTS = {"reviewers", "cy"}
"""A group and a person that rules of the game name: they are asked on threads of others."""


@dataclass(frozen=True)
class Breach:
    """Something that must not be, in words; `effect` is what was done."""

    words: str
    effect: Effect | None = None

    def __str__(self) -> str:
        return f"{self.effect}\n    {self.words}" if self.effect else self.words


@dataclass
class Oracle:
    world: World
    members: dict[str, set[int]] = field(default_factory=dict)
    """Group → its members as of the last look."""
    fit: dict[Any, str] = field(default_factory=dict)
    """Decision → why it approves nothing; "" where it does, as of its birth."""
    votes: dict[Any, bool] = field(default_factory=dict)
    """Vote → whether somebody gave it who might not, as of its birth."""
    seen: int = 0
    """Effects that were looked at."""
    memos: set[Any] = field(default_factory=set)
    """Results of `context.once` that were looked at."""
    covered: dict[int, Any] = field(default_factory=dict)
    """Number of an effect → the decision that it was done by."""

    def look(self) -> list[Breach]:
        """What came about since the last look that must not be."""
        before, self.members = self.members, _members()
        either = {name: before.get(name, set()) | self.members[name] for name in self.members}
        about = ("pause__run__thread", "pause__run__work_order")
        for vote in _new(Vote, self.votes, *about):
            given = (vote.voter_id, vote.seat_id, vote.external)
            self.votes[vote.pk] = self._wrong_person(given, vote.pause, either)
        for decision in _new(Decision, self.fit, *about):
            self.fit[decision.pk] = self._unfit(decision, either)
        found = [
            breach for number in range(self.seen, len(BOOK)) for breach in self._behind(number)
        ]
        self.seen = len(BOOK)
        return [*found, *self._undone(), *self._unheeded()]

    def _unheeded(self) -> Iterator[Breach]:
        """An effect behind a review that asked for no approval, and that nobody is told of; or
        another one that somebody is.
        """
        for memo in _new(Memo, self.memos):
            self.memos.add(memo.pk)
            run = Run.objects.get(pk=ids.parse("run", memo.scope.split("/")[0]))
            before = takewhile(lambda step: step["name"] != "heedless", _steps(run))
            behind = any(step["pause_after"] or step.get("may_pass") for step in before)
            if memo.unapproved != (behind and memo.key == "unheeded"):
                yield Breach(f"{memo.key} of {memo.scope}: unapproved is {memo.unapproved}")

    def _undone(self) -> Iterator[Breach]:
        """An answer was taken back behind which something was done."""
        if not self.covered:
            return
        undone = set(Decision.objects.filter(undoes__isnull=False).values_list("undoes", flat=True))
        for number, decision in list(self.covered.items()):
            if decision in undone:
                del self.covered[number]
                yield Breach(
                    f"{ids.show('dec', decision)}, by which it was done, was taken back",
                    BOOK[number],
                )

    def _behind(self, number: int) -> Iterator[Breach]:
        """What is missing for one effect: the decisions that the frozen rules of its run demand,
        over what it acted on.
        """
        effect = BOOK[number]
        run = Run.objects.get(pk=ids.parse("run", effect.run))
        chain = _ancestors(effect.head)
        for asked in _demanded(effect, _steps(run)):
            words, decision = self._missing(asked, effect, chain)
            if words:
                names = " or ".join(step["name"] for step in asked) or effect.of
                yield Breach(f"{names} of {run.definition} is reviewed: {words}", effect)
            elif decision is not None:
                self.covered[number] = decision

    def _missing(
        self, steps: list[dict[str, Any]], effect: Effect, chain: list[Any]
    ) -> tuple[str, Any]:
        """Why the last question before an effect of any of these steps lets it not happen; and the
        decision that does.
        """
        named = {step["name"]: step for step in steps}
        asked = {
            pause.checkpoint_id: pause
            for pause in Pause.objects.filter(checkpoint__in=chain).order_by("pk")
        }
        for key in chain:  # the newest first
            pause = asked.get(key)
            if pause is None:
                continue
            if pause.phase == "stepped_around" and named.keys() & _stepped_around(pause):
                return self._after_stepping_around(pause, effect), None
            if pause.step in named and pause.phase not in NO_VERDICT:
                return self._answer(pause, named[pause.step], effect)
        if effect.kind == "child":
            return self._of_child(effect, chain)
        return "nobody was asked", None

    def _of_child(self, effect: Effect, chain: list[Any]) -> tuple[str, Any]:
        """The same of what the newest child run was asked."""
        _, _, name = effect.of.partition("/")
        runs = Checkpoint.objects.filter(pk__in=chain).values("run_id")
        asked = Pause.objects.filter(run__parent__in=runs, step=name).exclude(phase__in=NO_VERDICT)
        pause = asked.order_by("pk").last()
        if pause is None:
            return "nobody was asked", None
        return self._answer(pause, _step(pause), effect)

    def _after_stepping_around(self, pause: Pause, effect: Effect) -> str:
        if effect.kind not in {"plain", "child"}:
            return "the review was stepped around, which approves nothing"
        decision = (
            Decision.objects.filter(pause=pause, action="step_around")
            .select_related("decided_by")
            .first()
        )
        if decision is None or decision.decided_by is None or decision.decided_by.username != "oli":
            return "the review was stepped around by nobody with the right to"
        if effect.kind == "child":
            return ""  # what it was stepped around for is in its own thread
        began = acted_on(store.load(Checkpoint.objects.get(pk=pause.checkpoint_id)), "plan")
        return "" if began == effect.material else f"the review was stepped around for {began!r}"

    def _answer(self, pause: Pause, step: Mapping[str, Any], effect: Effect) -> tuple[str, Any]:
        decision = Decision.objects.filter(pause=pause, undoes=None).first()
        if decision is None:
            return f"nobody answered {pause.shown_id}", None
        if decision.action in NO_APPROVAL:
            return f"{pause.shown_id} was answered with {decision.action}", None
        if Decision.objects.filter(undoes=decision).exists():
            return f"the answer to {pause.shown_id} was taken back", None
        declared = _declared(step)
        if effect.kind in {"demanding", "optional"} and decision.action not in declared:
            return f"{pause.shown_id} was answered with {decision.action}, no approval", None
        if step["pause_after"] and not declared & {*pause.answers}:
            return f"{pause.shown_id} asked for data alone", None
        if _wanted(pause) is None and _rules(pause.review) != _rules(step.get("review") or {}):
            return f"{pause.shown_id} was answered under other rules, {pause.review}", None
        if why_not := self.fit[decision.pk]:
            return f"{decision.shown_id} approves nothing: {why_not}", None
        if not _is_about(decision, pause, effect):
            return (
                f"{decision.shown_id} is about something else: {pause.content!r} {pause.calls}",
                None,
            )
        return "", decision.pk

    def _unfit(self, decision: Decision, members: Mapping[str, set[int]]) -> str:
        """Why a decision, born just now, lets nothing happen; "" where its rules let it."""
        pause = decision.pause
        if pause is None or decision.action in NO_APPROVAL:
            return "it is no approval"
        rules: dict[str, Any] = pause.review
        deadline = rules.get("deadline") or {}
        if decision.via == "workflow":
            return _unpassed(decision, pause)
        if decision.via == "policy":
            due = pause.deadline_at is not None and decision.decided_at >= pause.deadline_at
            return (
                ""
                if due and deadline.get("outcome") == "approve"
                else "the rules do not approve by themselves"
            )
        if pause.deadline_at is not None and decision.decided_at > pause.deadline_at:
            return "the deadline had passed"
        if decision.revision != pause.revision or decision.content_digest != pause.content_digest:
            return "it names another revision"
        quorum = max(int(each.get("quorum", 1)) for each in _all_rules(pause))
        given: dict[tuple[Any, Any, Any], bool]
        if quorum > 1:
            votes = Vote.objects.filter(pause=pause, content_digest=pause.content_digest)
            given = {
                (vote.voter_id, vote.seat_id, vote.external): self.votes[vote.pk] for vote in votes
            }
        else:
            seat = decision.on_behalf_of_id or decision.decided_by_id
            one = (decision.decided_by_id, seat, decision.external)
            given = {one: self._wrong_person(one, pause, members)}
        good = {one for one, wrong in given.items() if not wrong}
        people = {voter or external for voter, _, external in good}
        seats = {seat or external for _, seat, external in good}
        if min(len(people), len(seats)) < quorum:
            return f"{quorum} of the right people were wanted; answered: {sorted(map(str, given))}"
        return ""

    def _wrong_person(
        self, given: tuple[Any, Any, Any], pause: Pause, members: Mapping[str, set[int]]
    ) -> bool:
        voter, seat, external = given
        rules: dict[str, Any] = pause.review
        every = _all_rules(pause)
        if voter is None:
            return external not in [
                *rules.get("external", []),
                *([SUPPLIER] if rules.get("external") else []),
            ]
        stands_in = (
            voter != seat and Delegation.objects.filter(from_user=seat, to_user=voter).exists()
        )
        if voter != seat and not stands_in:
            return True
        if _unseen(pause, voter):
            return True
        run = pause.run
        askers = {
            run.thread.owner_id,
            run.started_by_id,
            run.work_order.created_by_id if run.work_order else None,
        }
        if {voter, seat} & askers and any(each.get("self_approval") is False for each in every):
            return True
        naming = [each for each in every if any((each.get("reviewers") or {}).values())]
        return any(_unnamed(seat, each, pause, members) for each in naming or [pause.review])


def _unnamed(
    seat: Any, rules: Mapping[str, Any], pause: Pause, members: Mapping[str, set[int]]
) -> bool:
    """Whether rules do not name whoever sits there; those that name nobody ask who takes part."""
    thread = pause.run.thread
    named = [rules.get("reviewers") or {}, *(rules.get("escalation") or [])[: pause.stage]]
    users = {name for one in named for name in one.get("users", [])}
    groups = {name for one in named for name in one.get("groups", [])}
    if not any((rules.get("reviewers") or {}).values()):
        part = {thread.owner_id, *_in_team(thread, members)}
        if seat in part or User.objects.filter(pk=seat, is_superuser=True).exists():
            return False
    fits = User.objects.filter(pk=seat, username__in=users).exists() or any(
        seat in members.get(name, set()) for name in groups
    )
    return not fits


def _steps(run: Run) -> list[dict[str, Any]]:
    """The frozen steps of a run; none of one that another engine has."""
    found = Definition.objects.filter(pk=run.definition_id).first()
    return list(found.content["steps"]) if found is not None else []


def _step(pause: Pause) -> dict[str, Any]:
    """The frozen step that asked."""
    return next((step for step in _steps(pause.run) if step["name"] == pause.step), {})


def _demanded(effect: Effect, steps: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The steps of which an effect needs the approval; of several in one list, that of whichever
    asked last.
    """
    names = [step["name"] for step in steps]
    of = [step for step in steps if effect.of in (step["name"], step["function"])]
    at = names.index(effect.step)
    if effect.kind == "optional":
        pausing = [step for step in of if step["pause_after"]]
        return [pausing] if pausing else []
    if effect.kind == "child":
        return [[step for step in steps if step["name"] == effect.of.partition("/")[0]]]
    if effect.kind == "plain":
        return [[step] for step in steps[:at] if step.get("review")]
    return [[steps[at]] if effect.kind == "call" else of]


def _declared(step: Mapping[str, Any]) -> set[str]:
    """The answers to a step's questions that are approvals: as its template says, or the game."""
    chosen = {one["name"] for one in step["choices"] if one.get("approves")}
    return {"approve", *chosen, *(GRANTED if step["function"] == "adversary.several" else ())}


def _wanted(pause: Pause) -> dict[str, Any] | None:
    """By which rules the step wanted to ask, besides those of its template."""
    return ASKED.get((pause.run.shown_id, pause.step))


def _all_rules(pause: Pause) -> list[dict[str, Any]]:
    """The rules that an answer has to keep to, each of them."""
    wanted = _wanted(pause)
    narrowed = [_step(pause).get("review") or {}, wanted] if wanted is not None else []
    return [pause.review, *narrowed]


def _unpassed(decision: Decision, pause: Pause) -> str:
    """Why a step may not have passed its review; "" where its template lets it."""
    every = _all_rules(pause)
    if not _step(pause).get("may_pass") or decision.action != "approve":
        return "its template does not let the step pass"
    if any(each.get("risk") == "high" or each.get("step_up") for each in every):
        return "a step passed what is of high risk"
    return "a step passed what a person wrote into its state" if _is_edited(pause) else ""


def _is_edited(pause: Pause) -> bool:
    """Whether a person changed the state between the run's beginning and a question, or that of a
    run which waits for it.
    """
    run: Run | None = pause.run
    at: uuid.UUID | None = pause.checkpoint_id
    while run is not None:
        if _is_edited_in(run, _ancestors(at)):
            return True
        run = run.parent
        at = run.thread.head_id if run is not None else None
    return False


def _is_edited_in(run: Run, chain: list[Any]) -> bool:
    first = _steps(run)[0]["name"]
    rows = Checkpoint.objects.in_bulk(chain)
    stops = set(
        Pause.objects.filter(checkpoint__in=chain, phase__in=NO_VERDICT).values_list(
            "checkpoint", flat=True
        )
    )
    for later, earlier in pairwise(rows[key] for key in chain):
        begins = later.run_id != earlier.run_id
        if begins and later.next_step == first:
            return False  # what it was begun with is no edit
        if (begins or earlier.pk in stops) and _told(later) != _told(earlier):
            return True
    return False


def _told(checkpoint: Checkpoint) -> dict[str, Any]:
    """A state without what an answer itself writes."""
    return {
        key: value
        for key, value in store.load(checkpoint).items()
        if key not in {"decided", "revision_feedback", "decided_content"}
    }


def _unseen(pause: Pause, voter: Any) -> bool:
    """Whether an approval came before its question, and did not name what it was for."""
    for early in EarlyAnswer.objects.filter(pause=pause, by=voter, received_at__lt=pause.opened_at):
        said = early.event.get("payload")
        told = {**early.event, **(said if isinstance(said, dict) else {})}
        named = (
            told.get("revision") or early.event.get("revision"),
            told.get("content_digest") or early.event.get("content_digest"),
        )
        if not pause.required_inputs and named != (pause.revision, pause.content_digest):
            return True
    return False


def _is_about(decision: Decision, pause: Pause, effect: Effect) -> bool:
    """Whether a decision was made over exactly what was acted on."""
    if effect.kind == "call":
        name, tool = effect.call.split("/")
        asked = next(
            (call for call in pause.calls if call["id"] == name and call["tool"] == tool), None
        )
        answer = (
            ((decision.payload or {}).get("calls") or {}).get(name)
            if decision.action == "answer"
            else {"decision": "approve"}
        )
        if asked is None or answer is None or answer["decision"] not in {"approve", "edit"}:
            return False
        return bool(arguments_of(answer.get("arguments") or asked["arguments"]) == effect.material)
    if pause.calls or pause.required_inputs:
        return True  # what was decided is about something else than the text
    return bool((decision.edited_content or pause.content) == effect.material)


def _rules(review: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in review.items() if value not in ({}, [], None)}


def _stepped_around(pause: Pause) -> set[str]:
    return {
        label.removeprefix("Rules of ") for label, _ in pause.facts if label.startswith("Rules of ")
    }


def _ancestors(head: Any) -> list[Any]:
    """The checkpoints that an effect came after, the newest first.

    A child run's line goes on with that of who started it no further.
    """
    parents = dict(Checkpoint.objects.values_list("pk", "parent"))
    found = []
    while head is not None:
        found.append(head)
        head = parents.get(head)
    return found


_KEYS = {
    model: PreparedValues(lambda model=model: model.objects.values_list("pk"))
    for model in (Vote, Decision, Memo)
}
_MEMBERS = PreparedValues(lambda: User.groups.through.objects.values_list("group__name", "user"))


def _new(model: Any, seen: Collection[Any], *about: str) -> list[Any]:
    """Rows that were not looked at, in their order, with what they are `about`.

    After most moves there are none, which the keys alone say.
    """
    keys = [key for [key] in _KEYS[model].get() if key not in seen]
    rows = model.objects.select_related(*about) if about else model.objects
    return list(rows.filter(pk__in=keys).order_by("pk")) if keys else []


def _members() -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for name, key in _MEMBERS.get():
        found.setdefault(name, set()).add(key)
    return found


def _in_team(thread: Thread, members: Mapping[str, set[int]]) -> set[int]:
    return members.get(thread.team.name, set()) if thread.team_id and thread.team else set()


def out_of_sight(world: World, who: str) -> dict[str, str]:
    """Ids that somebody must not be told of → what they are of.

    By raw rows: own threads, one's teams', and those one is asked on.
    """
    user = world.people.get(who)
    if user is not None and (user.is_superuser or user.is_staff):
        return {}  # rights in the admin open what is everybody's, on purpose
    mine = _members()
    groups = {name for name, keys in mine.items() if user is not None and user.pk in keys}
    if GUESTS & (groups | {who}) or (
        user is not None and Delegation.objects.filter(to_user=user).exists()
    ):
        return {}
    hidden = {}
    for thread in Thread.objects.select_related("team"):
        theirs = user is not None and (
            thread.owner_id == user.pk or (thread.team is not None and thread.team.name in groups)
        )
        if not theirs and thread.shown_id not in world.copied:
            hidden[thread.shown_id] = "a thread"
            hidden |= {
                one.shown_id: "a run" for one in Run.objects.filter(thread=thread).only("pk")
            }
    return hidden
