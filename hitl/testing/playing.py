"""`play`: a workflow as a test sees it: its questions, the answers to them, and what came of it."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from checkpoints import store
from checkpoints.database import clock
from checkpoints.database.people import NAME, User
from checkpoints.models import Checkpoint, Event, EventKind, Memo
from checkpoints.store.prepared_queries import Prepared
from hitl.decisions import services as decisions
from hitl.decisions.reviewers import policy, turns
from hitl.decisions.reviewers.outsiders import Outsider
from hitl.models import Decision, Via, Vote
from hitl.models.outbound import Channel, Delivery, Link, Occasion
from hitl.outbound import links
from hitl.testing.engine import AUTHOR, Engine
from hitl.testing.reading import Effect, Point, Question, question_of
from hitl.threads import export
from runs import services
from runs.models import Pause, Run, StepTraceback, WorkOrder
from runs.states import LIVE, RETRIED, RunStatus
from runs.workflows import ANSWER, APPROVE, CANCEL, REVISE
from runs.workflows.reviews import stages

REVIEWER = "reviewer"
"""Who answers where the rules name nobody."""
# read before and behind each answer
_order = Prepared(
    lambda key: WorkOrder.objects.select_related("latest_run").filter(pk=key), uuid.UUID
)
_asking = Prepared(
    lambda key: (
        Pause.objects.open()
        .filter(run__work_order=key, run__status__in=sorted(LIVE))
        .select_related("run__thread", "run__work_order")
        .order_by("pk")
    ),
    uuid.UUID,
)


class LinkRefused(AssertionError):
    """What the page behind a link says instead of taking an answer."""


@dataclass(frozen=True)
class MailedLink:
    """The way in that a mail brings to a question: `run.approve(by=run.link("cleo"))`."""

    token: str


By = str | MailedLink


class NothingAsked(AssertionError):
    """The work asks nothing, so there is nothing to answer; the message says how it stands."""


class Play:
    """Work by one workflow, as far as it has come.

    Every answer lets it go on until it asks again, waits for a time, or ends.
    """

    def __init__(self, engine: Engine, order: uuid.UUID) -> None:
        self.engine, self.key = engine, order

    @property
    def status(self) -> str:
        """`pending` (it waits for a time), `paused`, `completed`, `failed`, `cancelled` or
        `expired`.
        """
        return str(self._run.status)

    @property
    def done(self) -> bool:
        return self._run.status == RunStatus.COMPLETED

    @property
    def failed(self) -> bool:
        return self._run.status in RETRIED

    @property
    def error(self) -> str:
        """The words that it ended with; "" where it did not fail."""
        return str(self._run.error)

    @property
    def failure_code(self) -> str:
        return self._run.failure_code

    @property
    def wakes_at(self) -> dt.datetime | None:
        """When it goes on by itself: a retry, a timer, a deadline; None where it does not."""
        return self.engine.next_due()

    @property
    def question(self) -> Question | None:
        """What it asks, the oldest question first; None where it asks nothing.

        Raises NothingAsked where the work failed, with its words and the author's line.
        """
        question = next(iter(self.questions), None)
        if question is None and self.status == RunStatus.FAILED:
            raise NothingAsked(f"Nothing is asked; {self.stands()}")
        return question

    @property
    def questions(self) -> list[Question]:
        """All that it asks; several where child runs ask too."""
        with self.engine.placed():
            return [question_of(pause) for pause in self._open()]

    @property
    def state(self) -> dict[str, Any]:
        """The state that it has come to."""
        with self.engine.placed():
            head = WorkOrder.objects.select_related("thread__head").get(pk=self.key).thread.head
            assert head is not None
            return store.load(head)

    @property
    def checkpoints(self) -> list[Point]:
        """What was recorded of each step, oldest first; child runs have their own."""
        with self.engine.placed():
            order = WorkOrder.objects.get(pk=self.key)
            return [
                Point(
                    step=row.node_id,
                    loop_num=row.loop_num,
                    next_step=row.next_step,
                    status=str(row.status),
                    state=store.load(row),
                )
                for row in Checkpoint.objects.filter(thread=order.thread_id).order_by("pk")
            ]

    @property
    def recorded(self) -> list[Effect]:
        """All that `context.once` recorded, in its order, in child runs too."""
        return self._effects()

    @property
    def unapproved_effects(self) -> list[Effect]:
        """Those of them that were done behind a review by a step that relied on no decision, and
        did not say `optional`: whatever people answered, they happen.
        """
        return self._effects(unapproved=True)

    def _effects(self, **which: bool) -> list[Effect]:
        with self.engine.placed():
            children = {run.shown_id: run.child_name for run in self._runs()}
            memos = Memo.objects.filter(thread__runs__work_order=self.key, **which).distinct()
            found = []
            for memo in memos.order_by("pk"):
                run, rest = memo.scope.split("/", 1)
                step, loop = rest.rsplit("/", 1)
                found.append(
                    Effect(
                        step=step,
                        loop_num=int(loop),
                        key=memo.key,
                        result=memo.value[0],
                        child=children.get(run, ""),
                    )
                )
            return found

    @property
    def effects(self) -> dict[str, Any]:
        """Key → what `context.once` recorded under it, the last time where there were several."""
        return {effect.key: effect.result for effect in self.recorded}

    @property
    def logs(self) -> list[str]:
        """The lines of its log."""
        return [data["message"] for kind, data in self.events if kind == EventKind.LOG]

    @property
    def events(self) -> list[tuple[str, dict[str, Any]]]:
        """Kind and data of all that was told, in child runs too."""
        with self.engine.placed():
            rows = Event.objects.filter(thread__runs__work_order=self.key).distinct()
            return [(str(row.kind), row.data) for row in rows.order_by("at", "pk")]

    @property
    def decisions(self) -> list[tuple[str, str, str]]:
        """Step, answer and name of each decision: of somebody outside the address, and "" where
        the rules decided.
        """
        with self.engine.placed():
            rows = Decision.objects.filter(pause__run__work_order=self.key).order_by("pk")
            return [
                (row.pause.step if row.pause else "", row.action, row.by_name or row.external)
                for row in rows.select_related("pause")
            ]

    def exported(self) -> dict[str, Any]:
        """Its thread as a document, as `hitl.testing.replays` takes it."""
        with self.engine.placed():
            return export.export(WorkOrder.objects.get(pk=self.key).thread_id)

    def approve(
        self,
        *,
        by: By = "",
        reason: str = "",
        edited: str | None = None,
        at: str = "",
        stage: str = "",
        **values: Any,
    ) -> Play:
        """Approve what it asks.

        Args:
            by: who does: the name of an account, a mail address that is asked outside, or a
                `link`; else somebody whom the rules ask and who has not voted.
            edited: the content as it is approved, where the rules allow edits.
            at: the step that asks, where several questions are open.
            stage: the stage of the review; else the first that is open, or that of `by`.
            values: the data that the question asks for.
        Raises:
            NothingAsked: it asks nothing; and what the product refuses such an answer with.
        """
        return self.decide(
            APPROVE, by=by, words=reason, edited=edited, at=at, stage=stage, values=values
        )

    def revise(self, words: str, *, by: By = "", at: str = "", stage: str = "") -> Play:
        """Send it back with these words."""
        return self.decide(REVISE, by=by, words=words, at=at, stage=stage)

    def cancel(
        self,
        reason: str = "",
        *,
        by: By = "",
        at: str = "",
        stage: str = "",
        order: bool = False,
    ) -> Play:
        """End the work by an answer to its question; where it asks nothing, such as work that
        sleeps, as the page of its order does.

        Args:
            order: end the whole order by its page also where child runs ask.
            by: of the page: somebody who takes part in the work, else who asked for it.
        """
        with self.engine.placed():
            asks = bool(self._open())
        if order or (not asks and self.status in LIVE and not at and isinstance(by, str)):
            with self.engine.placed():
                who = self.engine.person(str(by) or AUTHOR)
                decisions.cancel_order(self.key, by=who, via=Via.PAGE, reason=reason)
            self.engine.work()
            return self
        return self.decide(CANCEL, by=by, words=reason, at=at, stage=stage)

    def answer(
        self, action: str = ANSWER, /, *, by: By = "", at: str = "", stage: str = "", **values: Any
    ) -> Play:
        """Give the data that it asks for, or an answer of the template's own."""
        return self.decide(action, by=by, at=at, stage=stage, values=values)

    def decide(
        self,
        action: str,
        *,
        words: str = "",
        values: Mapping[str, Any] | None = None,
        edited: str | None = None,
        by: By = "",
        at: str = "",
        stage: str = "",
    ) -> Play:
        """Give an answer by its name; see `approve`."""
        with self.engine.placed():
            mail = _followed(by) if isinstance(by, MailedLink) else None
            pause = mail.pause if mail else self._asked(at)
            if not by and not stage and policy.approves(action):
                stage = next((one["name"] for one in turns.open_now(pause)), "")
            answer = decisions.Answer(
                action,
                Via.LINK if mail or (by and _is_outside(by)) else Via.REST,
                feedback=words,
                revision=mail.revision if mail else pause.revision,
                payload=dict(values) if values else None,
                stage=stage,
                edited_content=edited,
            )
            decisions.decide(pause.pk, answer, by=self._actor(by, mail, pause, stage))
            if mail:
                links.use(mail)
        self.engine.work()
        return self

    def link(self, to: str, *, at: str = "") -> MailedLink:
        """Give the link that a mail about what it asks has, to somebody with an account or to an
        address outside; it is good for `WAYSTATION_LINK_DAYS`, for this revision, and once.
        """
        with self.engine.placed():
            pause = self._asked(at)
            outside = _is_outside(to)
            delivery = Delivery.objects.create(
                pause=pause,
                occasion=Occasion.ASKED,
                mark=uuid.uuid4().hex,
                channel=Channel.EMAIL,
                place="hitl.testing",
                recipient=None if outside else self.engine.person(to),
                contact=to if outside else "",
                next_at=clock.now(),
                made_at=clock.now(),
            )
            return MailedLink(links.url_of(delivery).rpartition("/")[2])

    def retry(self) -> Play:
        """Take failed or expired work up where it stopped."""
        with self.engine.placed():
            services.retry(self.key, by=self.engine.person(REVIEWER, superuser=True))
        self.engine.work()
        return self

    def advance(self, *, until: dt.datetime | None = None, **time: float) -> Play:
        """Let time pass, as `datetime.timedelta(hours=2)` has it, and do what is due by then; or
        `until` a moment with its time zone, in which a day may have 23 or 25 hours.
        """
        self.engine.advance_to((until or self.engine.now()) + dt.timedelta(**time))
        return self

    @property
    def _run(self) -> Run:
        with self.engine.placed():
            [order] = _order.get(self.key)
            assert order.latest_run is not None
            return order.latest_run

    def _runs(self) -> list[Run]:
        return list(Run.objects.filter(work_order=self.key).order_by("pk"))

    def _open(self) -> list[Pause]:
        return _asking.get(self.key)

    def _asked(self, at: str) -> Pause:
        """The question that is answered; raises NothingAsked."""
        pauses = [pause for pause in self._open() if at in ("", pause.step, pause.run.child_name)]
        if pauses:
            return pauses[0]
        raise NothingAsked(f"Nothing is asked{f' at {at}' if at else ''}; {self.stands()}")

    def stands(self) -> str:
        """How work stands that asks nothing, in words; of failed work with the author's line."""
        stands = f"the run is {self.status}"
        if self.error:
            with self.engine.placed():
                trace = StepTraceback.objects.filter(run=self._run).first()
            at = f" ({trace.place})" if trace and trace.place else ""
            return f"{stands}: {self.error}{at}"
        if (wakes := self.wakes_at) is not None:
            stands += f" and goes on by itself at {wakes:%Y-%m-%d %H:%M:%S} (`.advance(…)`)"
        return stands

    def _actor(self, by: By, mail: Link | None, pause: Pause, stage: str) -> User | Outsider:
        if mail is not None:
            return mail.recipient or links.outsider_of(mail) or self.engine.person(REVIEWER)
        if isinstance(by, str) and by:
            return Outsider(by.lower()) if _is_outside(by) else self.engine.person(by)
        return self._reviewer(pause, stage)

    def _reviewer(self, pause: Pause, stage: str) -> User:
        """Somebody whom the rules ask, at that stage where one is named, and who has not voted."""
        voted = set(Vote.objects.filter(pause=pause).values_list("voter_id", flat=True))
        number = 0
        while True:
            number += 1
            for person in self._candidates(pause, number, stage):
                if person.pk not in voted:
                    return person

    def _candidates(self, pause: Pause, number: int, stage: str) -> Iterator[User]:
        if policy.open_to_all(pause):
            name = REVIEWER if number == 1 else f"{REVIEWER}-{number}"
            yield self.engine.person(name, superuser=True)
            return
        actors = policy.named(pause)
        if stage:
            named = [one for one in stages.of(pause.review) if one["name"] == stage]
            actors = [one.get("reviewers", {}) for one in named]
        users = [name for actor in actors for name in actor.get("users", [])]
        groups = [name for actor in actors for name in actor.get("groups", [])]
        if not groups and number > len(users):
            raise NothingAsked(
                f"All whom the rules of {pause.step} name have voted: {', '.join(users)}."
            )
        yield from User.objects.filter(**{f"{NAME}__in": users}).order_by("pk")
        yield from User.objects.filter(groups__name__in=groups).order_by("pk")
        for group in groups:
            yield self.engine.person(f"{group}-{number}", [group])


def _is_outside(by: By) -> bool:
    """Whether it is the mail address of somebody who has no account of that name."""
    known = User.objects.filter(**{NAME: by})
    return isinstance(by, str) and "@" in by and not known.exists()


def _followed(by: MailedLink) -> Link:
    """The link's row, where it takes an answer; raises LinkRefused."""
    mail = links.find(by.token)
    if mail is None:
        raise LinkRefused("There is no such link.")
    problem, _ = links.refusal(mail, visitor=None, now=clock.now())
    if problem is not None:
        raise LinkRefused(f"{problem.title}. {problem.words}")
    return mail


def play(workflow: Any, *, engine: Engine | None = None, **about: Any) -> Play:
    """Run a workflow in this process until it asks, waits or ends.

    The engine is the product's own, on a fresh SQLite database in a file: no server, broker or
    worker is needed, and nothing is sent to anybody.

    Args:
        workflow: a slug that WAYSTATION_WORKFLOWS has, a module with TEMPLATES, or a mapping with
            `TEMPLATES` and `STEP_TEMPLATES`.
        engine: another engine, such as one on PostgreSQL.
        about: what is asked for: `template` (of several), `input`, `request`, `title`,
            `repository`; who and what there is: `people` (name → groups), `credentials` (name →
            secret), `model` (`hitl.testing.engine.Script`: what the model of agents says),
            `settings`; `at`: the moment at which its clock begins, with a time zone;
            `interrupt_before` and `interrupt_after`.
    Raises:
        Whatever the product refuses such an order with; Endless.
    """
    engine = engine or Engine.on_sqlite()
    order = engine.start(workflow, **about)
    engine.work()
    return Play(engine, order)
