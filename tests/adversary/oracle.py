"""What was done that nobody let happen: the book of effects against raw rows, without a line of the
product's own approval code.

The oracle is asked after every move. People's rights change meanwhile, so it looks at each new
decision, vote and effect at once, with who was in which group before and after that move; what it
found stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import User

from checkpoints import ids, store
from checkpoints.models import Checkpoint, Thread
from hitl.models import Decision, Delegation, EarlyAnswer, Vote
from runs.models import Definition, Pause, Run
from tests.adversary import world as worlds
from tests.adversary.world import BOOK, SUPPLIER, Effect, World, arguments_of

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
    seen: int = 0
    """Effects that were looked at."""
    covered: dict[int, Any] = field(default_factory=dict)
    """Number of an effect → the decision that it was done by."""

    def look(self) -> list[Breach]:
        """What came about since the last look that must not be."""
        before, self.members = self.members, _members()
        either = {name: before.get(name, set()) | self.members[name] for name in self.members}
        for decision in Decision.objects.select_related(
            "pause__run__thread", "pause__run__work_order"
        ).order_by("pk"):
            if decision.pk not in self.fit:
                self.fit[decision.pk] = self._unfit(decision, either)
        found = [
            breach for number in range(self.seen, len(BOOK)) for breach in self._behind(number)
        ]
        self.seen = len(BOOK)
        return [*found, *self._undone()]

    def _undone(self) -> Iterator[Breach]:
        """An answer was taken back behind which something was done."""
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
        steps: list[dict[str, Any]] = Definition.objects.get(pk=run.definition_id).content["steps"]
        names = [step["name"] for step in steps]
        here = steps[names.index(effect.step)]
        chain = _ancestors(effect.head)
        if effect.kind == "call":
            demanded = [here]
        elif effect.kind == "demanding":
            demanded = [
                step
                for step in steps
                if step["name"] == effect.of and (step["pause_after"] or step.get("review"))
            ]
        else:
            demanded = [step for step in steps[: names.index(effect.step)] if step.get("review")]
        for one in demanded:
            words, decision = self._missing(one, effect, chain)
            if words:
                yield Breach(f"{one['name']} of {run.definition} is reviewed: {words}", effect)
            elif decision is not None:
                self.covered[number] = decision

    def _missing(
        self, step: Mapping[str, Any], effect: Effect, chain: list[Any]
    ) -> tuple[str, Any]:
        """Why the step's last question before an effect lets it not happen; and the decision that
        does.
        """
        asked = {
            pause.checkpoint_id: pause
            for pause in Pause.objects.filter(checkpoint__in=chain).order_by("pk")
        }
        for key in chain:  # the newest first
            pause = asked.get(key)
            if pause is None:
                continue
            if pause.phase == "stepped_around" and step["name"] in _stepped_around(pause):
                return self._after_stepping_around(pause, effect), None
            if pause.step == step["name"] and pause.phase not in NO_VERDICT:
                return self._answer(pause, step, effect)
        return "nobody was asked", None

    def _after_stepping_around(self, pause: Pause, effect: Effect) -> str:
        if effect.kind != "plain":
            return "the review was stepped around, which approves nothing"
        decision = (
            Decision.objects.filter(pause=pause, action="step_around")
            .select_related("decided_by")
            .first()
        )
        if decision is None or decision.decided_by is None or decision.decided_by.username != "oli":
            return "the review was stepped around by nobody with the right to"
        began = worlds.acted_on(store.load(Checkpoint.objects.get(pk=pause.checkpoint_id)), "plan")
        return "" if began == effect.material else f"the review was stepped around for {began!r}"

    def _answer(self, pause: Pause, step: Mapping[str, Any], effect: Effect) -> tuple[str, Any]:
        decision = Decision.objects.filter(pause=pause, undoes=None).first()
        if decision is None:
            return f"nobody answered {pause.shown_id}", None
        if decision.action in NO_APPROVAL:
            return f"{pause.shown_id} was answered with {decision.action}", None
        if Decision.objects.filter(undoes=decision).exists():
            return f"the answer to {pause.shown_id} was taken back", None
        if _rules(pause.review) != _rules(step.get("review") or {}):
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
        quorum, votes = int(rules.get("quorum", 1)), list(Vote.objects.filter(pause=pause))
        if quorum > 1:
            given = [
                (vote.voter_id, vote.seat_id, vote.external)
                for vote in votes
                if vote.content_digest == pause.content_digest
            ]
        else:
            given = [
                (
                    decision.decided_by_id,
                    decision.on_behalf_of_id or decision.decided_by_id,
                    decision.external,
                )
            ]
        good = {one for one in given if not self._wrong_person(one, pause, members)}
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
        if rules.get("self_approval") is False and {voter, seat} & askers:
            return True
        named = [rules.get("reviewers") or {}, *(rules.get("escalation") or [])[: pause.stage]]
        users = {name for one in named for name in one.get("users", [])}
        groups = {name for one in named for name in one.get("groups", [])}
        if not any((rules.get("reviewers") or {}).values()):
            part = {run.thread.owner_id, *_in_team(run.thread, members)}
            if seat in part or User.objects.filter(pk=seat, is_superuser=True).exists():
                return False
        fits = User.objects.filter(pk=seat, username__in=users).exists() or any(
            seat in members.get(name, set()) for name in groups
        )
        return not fits


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


def _members() -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for name, key in User.groups.through.objects.values_list("group__name", "user"):
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
