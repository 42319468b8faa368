"""Waits of other engines: opening one, finding a run by the id it has there, and what becomes of
it.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import replace

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction
from django.db.models import F, Q, QuerySet

from checkpoints import ids
from checkpoints.database import clock
from checkpoints.database.people import User, called
from checkpoints.events import log
from checkpoints.models import EventKind, Thread
from checkpoints.state import codec
from hitl.decisions import notifications, visibility
from hitl.decisions.deadlines import outcomes
from hitl.decisions.reviewers import policy
from hitl.decisions.services import NotFound
from hitl.models import ApiToken, OuterRun, Wait
from hitl.models.outbound import Occasion
from hitl.outbound import endpoints, quotas
from hitl.wait_gate import early_answers, questions
from hitl.wait_gate.questions import OF_TOKENS, RUN_ID
from hitl.wait_gate.questions import WaitInvalid as WaitInvalid
from hitl.wait_gate.questions import WaitRequest as WaitRequest
from runs import keyed
from runs.definitions import rights
from runs.models import Pause, Run
from runs.security import scopes
from runs.services import external_runs
from runs.states import PENDING, PauseStatus
from runs.workflows import external_reviewers

BREATHS = (0.02, 0.05, 0.1, 0.2, 0.4, 0)
"""Seconds between two tries to ask, while the run is leaving its last question."""


class TooManyWaits(Exception):
    """The token has as many open questions as it may have."""

    code = "too_many_waits"


class WaitOpen(Exception):
    """The run waits with another question, or is just leaving it; the message says which.

    Nothing was written.
    """

    code = "wait_open"


def open_wait(asked: WaitRequest, *, by: User) -> tuple[Wait, bool]:
    """The wait with these words, and whether it was opened just now.

    A run that waits with these words waits on. What was answered is asked anew, so that no answer
    is given to who asked another time; only under a `key` it is the same question, for `valid_for`
    seconds from its end.

    Raises:
        WaitInvalid: what was sent cannot be asked.
        WaitOpen: the run waits with another question.
        rights.NotPermitted: operators let only others open waits (rights to the template
            `wait-gate`).
        quotas.OutsideNotAllowed, quotas.QuotaUsed: they may not have that sent.
    """
    return _open_wait(asked, by=by, agent=None)


def open_wait_of(token: ApiToken, asked: WaitRequest) -> tuple[Wait, bool]:
    """The same for an agent that asks by its token.

    Each question is a run of its own, so nothing can be answered that is not asked yet: without a
    `key` it is a new one each time. Somebody else than the token can answer it; and the token has
    up to TOKEN_WAITS open questions.

    Args:
        asked: without a `run_id`: it is made of the token, and of the words under the key.
    Raises:
        WaitInvalid: what was sent cannot be asked, or nobody could answer it.
        TooManyWaits: the token has too many open questions.
        What else `open_wait` raises.
    """
    assert not asked.run_id
    own = asked.digest if asked.key else ids.new().hex
    named = replace(asked, run_id=f"{OF_TOKENS}{token.pk.hex}:{own}")
    return _open_wait(named, by=token.user, agent=token)


def _open_wait(asked: WaitRequest, *, by: User, agent: ApiToken | None) -> tuple[Wait, bool]:
    rights.check_order(external_runs.SLUG, by)
    question, team = questions.check(asked, agent), _team(asked, by)
    before = _asked_before(asked, by)
    if before is not None and _counts(before, asked):
        return before, False
    quotas.check(by, [*asked.recipients, *external_reviewers.named(question.review)])
    for breath in BREATHS:
        _let_end(asked, by)
        try:
            wait = _open(asked, question, team, by=by, agent=agent, over=before)
        # outer_run_name_once, run_one_live_per_thread, wait_same_once: somebody was as quick
        except (IntegrityError, WaitOpen) as error:
            before = _asked_before(asked, by)
            if before is not None and _counts(before, asked):
                return before, False
            if not breath or _asks_else(asked, by):
                raise WaitOpen(_why_not(asked, by)) from error
            time.sleep(breath)  # somebody else is letting its last run end
        else:
            early_answers.take_for(wait.outer.thread_id)
            return wait, True
    raise AssertionError("the last breath is none")


@transaction.atomic(durable=True)
def _open(
    asked: WaitRequest,
    question: external_runs.ExternalQuestion,
    team: Group | None,
    *,
    by: User,
    agent: ApiToken | None,
    over: Wait | None,
) -> Wait:
    """Args: `over` is the wait with these words whose answer counts no more; it is told from the
    new one from now on.
    """
    if agent is not None:
        _check_room(agent)
    if over is not None and not _gives_way(over):
        raise WaitOpen(_why_not(asked, by))  # somebody else asked anew
    outer = (
        OuterRun.objects.select_related("thread__head").filter(owner=by, name=asked.run_id).first()
    )
    if outer is None:
        title = asked.run_id if agent is None else question.question
        thread = Thread.objects.create(owner=by, team=team, title=title[:200])
        outer = OuterRun.objects.create(owner=by, name=asked.run_id, thread=thread)
    elif Pause.objects.open().filter(run__thread=outer.thread).exists():
        raise WaitOpen(_why_not(asked, by))
    if question.until is not None and question.until <= clock.now():
        raise WaitInvalid.of("next_deadline", "It has passed, so nobody could answer in time.")
    pause = external_runs.open_wait(outer.thread, question)
    if agent is not None and not policy.answerers(pause).exists():
        raise WaitInvalid.of("team", NOBODY)
    keyed.made(pause.run.shown_id)
    if asked.callback_url:
        endpoints.keep_callback(outer.thread, asked.callback_url, secret=asked.callback_secret)
    for to in asked.recipients:
        _send(pause, to, asked.question)
    token = agent.pk if agent else scopes.acting_token()
    return Wait.objects.create(
        outer=outer,
        pause=pause,
        node_id=asked.node_id,
        digest=asked.digest,
        recipients=[{"to": to, "question": asked.question} for to in asked.recipients],
        callback_url=asked.callback_url,
        callback_secret=asked.callback_secret,
        token_id=token,
    )


def _gives_way(wait: Wait) -> bool:
    """Whether the words of a wait are free for another one from now on; of two at once, for one."""
    past = codec.digest(codec.encode([wait.digest, wait.shown_id]))
    return bool(Wait.objects.filter(pk=wait.pk, digest=wait.digest).update(digest=past))


def follow(expired: Pause, run: Run) -> None:
    """Let the engine find its question, which a run of ours asks again, by its own id of the run;
    and tell those anew whom it named. Call inside the transaction that asks.

    The answer to the old one stays what it was: a wait of its own.
    """
    before = Wait.objects.filter(pause=expired).first()
    if before is None:
        return  # it came with a document
    _gives_way(before)
    same = ("outer_id", "node_id", "digest", "recipients", "callback_url", "callback_secret")
    wait = Wait.objects.create(
        pause=Pause.objects.select_related("run__thread").get(run=run),
        token_id=before.token_id,
        **{name: getattr(before, name) for name in same},
    )
    for asked in wait.recipients:
        _send(wait.pause, asked["to"], asked["question"])


NOBODY = "Nobody could answer this question, since who asks does not approve. Name others to ask."


def _check_room(token: ApiToken) -> None:
    ApiToken.objects.select_for_update(no_key=True).get(pk=token.pk)  # counts one after the other
    most = int(settings.WAYSTATION_TOKEN_WAITS)
    asked = Wait.objects.filter(token=token, outer__name__startswith=OF_TOKENS)
    if asked.filter(pause__in=Pause.objects.open()).count() >= most:
        raise TooManyWaits(
            f"This token has {most} open questions, as many as it may. Nothing was asked: wait for "
            "answers, or withdraw some."
        )


def _asked_before(asked: WaitRequest, by: User) -> Wait | None:
    """The last wait with these words."""
    shown = Wait.objects.select_related("outer", "pause__run__thread")
    return shown.filter(outer__owner=by, outer__name=asked.run_id, digest=asked.digest).first()


def _counts(wait: Wait, asked: WaitRequest) -> bool:
    """Whether who asks these words gets this wait: it is open, or was asked under a key and ended
    not too long ago, by the database's clock.
    """
    if wait.pause.overdue:
        outcomes.meet(Pause.objects.filter(pk=wait.pause_id))
        wait.pause.refresh_from_db()
    counts = Q(status=PauseStatus.OPEN)
    if asked.key:
        seconds = questions.VALID_FOR if asked.valid_for is None else asked.valid_for
        counts |= Q(closed_at__gt=clock.FromNow(-seconds))
    return Pause.objects.filter(counts, pk=wait.pause_id).exists()


def _asks_else(asked: WaitRequest, by: User) -> bool:
    """Whether the run waits with other words, in one look: since the last one somebody may have
    asked these.
    """
    mine = {"run__thread__outer_run__owner": by, "run__thread__outer_run__name": asked.run_id}
    return Pause.objects.open().filter(**mine).exclude(wait__digest=asked.digest).exists()


def _why_not(asked: WaitRequest, by: User) -> str:
    if _asks_else(asked, by):
        return (
            f"{asked.run_id} waits with another question already. Answer or cancel that one first."
        )
    return f"{asked.run_id} is just leaving its last wait. Ask again in a moment."


def _let_end(asked: WaitRequest, by: User) -> None:
    """A run whose wait was answered has only to end; whoever asks the next question need not wait
    for a worker.
    """
    answered = Run.objects.filter(
        thread__outer_run__owner=by, thread__outer_run__name=asked.run_id, status=PENDING
    ).first()
    if answered is not None:
        external_runs.let_end(answered.pk)


def _team(asked: WaitRequest, by: User) -> Group | None:
    team = by.groups.filter(name=asked.team).first() if asked.team else None
    if asked.team and team is None:
        raise WaitInvalid.of("team", "You are in no team of this name.")
    return team


def find(run_id: str, *, by: User) -> tuple[Run, Wait | None]:
    """A run by its own id here (`run_…`), or the newest wait of another engine's run: one's own
    first, else a colleague's. For who takes part in it: it is shown whole.

    Raises NotFound.
    """
    if (key := _key(run_id)) is None:
        return _newest_wait(run_id, Thread.objects.visible_to(by), by)
    run = visibility.find_run(key, by=by)
    return run, _waits().filter(pause__run=run).first()


def look_for(run_id: str, *, by: User) -> tuple[Run, Wait | None]:
    """As `find`, also for whom its questions ask without their taking part: to watch and answer."""
    try:
        return find(run_id, by=by)
    except NotFound:
        if (key := _key(run_id)) is None:
            return _newest_wait(run_id, visibility.threads_shown_to(by), by)
        run = visibility.look_at_run(key, by=by)
        return run, _waits().filter(pause__run=run).first()


def find_to_answer(run_id: str, *, by: User) -> tuple[Run, Wait | None]:
    """As `look_for`: whom the rules ask from the deadline on is asked now."""
    try:
        return look_for(run_id, by=by)
    except NotFound:
        key = _key(run_id)
        if key is None and not RUN_ID.fullmatch(run_id):
            raise
        named = Q(wait__outer__name=run_id) if key is None else Q(run=key)
        if not outcomes.meet(Pause.objects.filter(named)):
            raise
        return look_for(run_id, by=by)


def _key(run_id: str) -> uuid.UUID | None:
    """The key of a run by its own id here; None for a name of another engine."""
    try:
        return ids.parse(Run.PREFIX, run_id)
    except ValueError:
        return None


def _waits() -> QuerySet[Wait]:
    return Wait.objects.select_related("outer", "pause")


def _newest_wait(run_id: str, threads: QuerySet[Thread], by: User) -> tuple[Run, Wait]:
    if not RUN_ID.fullmatch(run_id):
        raise NotFound("There is no such run.")
    named = OuterRun.objects.filter(name=run_id, thread__in=threads)
    mine = sorted(named, key=lambda outer: outer.owner_id != by.pk)
    # whose is meant is not to be guessed
    if not mine or (mine[0].owner_id != by.pk and len(mine) > 1):
        raise NotFound("There is no such run.")
    wait = _waits().filter(outer=mine[0]).order_by("-id").first()
    if wait is None:
        raise NotFound("There is no such run.")
    return Run.objects.shown().get(pk=wait.pause.run_id), wait


@transaction.atomic(durable=True)
def tell(wait: Wait, recipient: str, question: str, *, by: User) -> None:
    """Have somebody told of an open question, once each.

    Raises WaitInvalid, quotas.OutsideNotAllowed and quotas.QuotaUsed.
    """
    questions.check_recipient(recipient)
    Thread.objects.filter(pk=wait.pause.run.thread_id).update(
        first_seq=F("first_seq")
    )  # two at once: the second reads what the first wrote
    wait.refresh_from_db(fields=["recipients"])
    if any(asked["to"] == recipient for asked in wait.recipients):
        return
    quotas.check(by, [recipient])
    Wait.objects.filter(pk=wait.pk).update(
        recipients=[*wait.recipients, {"to": recipient, "question": question}]
    )
    _send(wait.pause, recipient, question)
    event = {"what": "request", "pause_id": wait.pause.shown_id, "recipient": recipient}
    log.append(wait.pause.run.thread_id, wait.pause.run_id, [(EventKind.PAUSE_UPDATED, event)])


def _send(pause: Pause, recipient: str, question: str) -> None:
    """To somebody who may answer, by name, or to a mail address.

    Others are kept with the wait, for the engine's own channels.
    """
    address = recipient.removeprefix("mailto:")
    person = (
        policy.answerers(pause).filter(called(address)).first() if address == recipient else None
    )
    if person is not None:
        notifications.plan(pause, Occasion.ASKED, to=[person], mark=quotas.CHOSEN, words=question)
    elif "@" in address:
        notifications.write_to(pause, Occasion.ASKED, address, mark=quotas.CHOSEN, words=question)
