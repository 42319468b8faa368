"""Waits of other engines: opening one, finding a run by the id it has there, and what becomes of it
(S3-20, 46, 54).
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction
from django.db.models import F

from checkpoints import ids
from checkpoints.database.people import User, called
from checkpoints.events import log
from checkpoints.models import EventKind, Thread
from checkpoints.state import codec
from hitl.decisions import notifications
from hitl.decisions.reviewers import policy
from hitl.decisions.services import NotFound
from hitl.models import ApiToken, OuterRun, Wait
from hitl.models.outbound import Occasion
from hitl.outbound import endpoints, quotas, recipients
from hitl.wait_gate import early_answers, signatures
from runs import keyed
from runs.definitions import rights, step_options
from runs.models import Pause, Run
from runs.security import ssrf
from runs.services import external_runs
from runs.states import PENDING
from runs.workflows import owned, schemas, tool_calls
from runs.workflows.reviews import rules as review_rules
from runs.workflows.sequence import APPROVE, CANCEL
from runs.workflows.tool_calls import Call
from runs.workflows.wait_for_input import ANSWER

MAX_STATE = 512 * 1024
"""Bytes of a state's canonical text."""
RESERVED = {"wait"}
"""What no run may be called: an address of the API."""
OF_TOKENS = "token:"
"""How the names of runs begin that ask agents' questions."""
LONGEST = {
    "node_id": 200,
    "blocking_reason": 64,
    "question": 300,
    "content": 100_000,
    "key": 200,
    "callback_url": 2_000,
}
"""Characters of what is asked."""
RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:~@=+-]{0,199}", re.ASCII)
"""What may stand in an address as it is."""


class WaitInvalid(Exception):
    """The wait cannot be opened as it is; nothing was written.

    `errors` maps a field to sentences.
    """

    code = "wait_invalid"

    def __init__(self, errors: dict[str, list[str]]) -> None:
        super().__init__(
            "No wait was opened: "
            + " ".join(f"{field}: {text}" for field, texts in errors.items() for text in texts)
        )
        self.errors = errors


class TooManyWaits(Exception):
    """The token has as many open questions as it may have."""

    code = "too_many_waits"


class WaitOpen(Exception):
    """The run waits with another question, or is just leaving it; the message says which.

    Nothing was written.
    """

    code = "wait_open"


@dataclass(frozen=True, kw_only=True)
class WaitRequest:
    """What another engine asks for.

    The same words under the same `run_id` are the same wait, however often they are sent.
    """

    run_id: str
    """The engine's own id of its run."""
    node_id: str
    """Where the engine goes on once it has the answer."""
    blocking_reason: str
    state: Mapping[str, Any] = field(default_factory=dict)
    required_inputs: Mapping[str, Any] = field(default_factory=dict)
    question: str = ""
    content: str = ""
    choices: Sequence[Mapping[str, str]] = ()
    """Answers beside the usual one: `name` and `label` each."""
    review: Mapping[str, Any] = field(default_factory=dict)
    """Who answers, by when and how: `runs.workflows.reviews.rules`."""
    recipients: Sequence[str] = ()
    prompt_id: str = ""
    """What `POST /api/v1/resume` may call the question, beside its id."""
    key: str = ""
    """Tells apart what a loop asks in the same words again."""
    team: str = ""
    callback_url: str = ""
    callback_secret: str = ""
    calls: Sequence[Call] = ()
    """Decided one by one, in place of `required_inputs` and `choices`."""

    @property
    def told(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        lists = {
            "choices": [dict(choice) for choice in self.choices],
            "recipients": list(self.recipients),
            "calls": [tool_calls.told(call) for call in self.calls],
        }
        return {**{column.name: getattr(self, column.name) for column in fields(self)}, **lists}

    @property
    def digest(self) -> str:
        """Of all but the secret, which may be replaced.

        A wait without a name or calls has the digest that it had before there were any.
        """
        later = {"prompt_id", "calls"}
        bound = {name: value for name, value in self.told.items() if name not in later or value}
        return codec.digest(codec.encode({**bound, "callback_secret": ""}))


def open_wait(asked: WaitRequest, *, by: User) -> tuple[Wait, bool]:
    """The wait with these words, and whether it was opened just now.

    Raises:
        WaitInvalid: what was sent cannot be asked.
        WaitOpen: the run waits with another question.
        rights.NotPermitted: operators let only others open waits (rights to the template
            `wait-gate`).
        quotas.OutsideNotAllowed, quotas.QuotaUsed: they may not have that sent.
    """
    return _open_wait(asked, by=by, token=None)


def open_wait_of(token: ApiToken, asked: WaitRequest) -> tuple[Wait, bool]:
    """The same for an agent that asks by its token.

    Each question is a run of its own, so nothing can be answered that is not asked yet. The token
    never answers it; somebody else can; and it has up to TOKEN_WAITS open questions.

    Args:
        asked: without a `run_id`: it is made of the token and of the words.
    Raises:
        WaitInvalid: what was sent cannot be asked, or nobody could answer it.
        TooManyWaits: the token has too many open questions.
        What else `open_wait` raises.
    """
    assert not asked.run_id
    named = replace(asked, run_id=f"{OF_TOKENS}{token.pk.hex}:{asked.digest}")
    return _open_wait(named, by=token.user, token=token)


def _open_wait(asked: WaitRequest, *, by: User, token: ApiToken | None) -> tuple[Wait, bool]:
    rights.check_order(external_runs.SLUG, by)
    question, team = _checked(asked, token), _team(asked, by)
    if (known := _known(asked, by)) is not None:
        return known, False
    if token is not None:
        _check_room(token)
    quotas.check(by, [*asked.recipients, *question.review.get("external", [])])
    _let_end(asked, by)
    try:
        wait = _open(asked, question, team, by=by, token=token)
    # outer_run_name_once, run_one_live_per_thread, wait_same_once: somebody was as quick
    except (IntegrityError, WaitOpen) as error:
        if (known := _known(asked, by)) is not None:
            return known, False
        raise WaitOpen(_why_not(asked, by)) from error
    early_answers.take_for(wait.outer.thread_id)
    return wait, True


@transaction.atomic(durable=True)
def _open(
    asked: WaitRequest,
    question: external_runs.Question,
    team: Group | None,
    *,
    by: User,
    token: ApiToken | None,
) -> Wait:
    outer = (
        OuterRun.objects.select_related("thread__head").filter(owner=by, name=asked.run_id).first()
    )
    if outer is None:
        title = asked.run_id if token is None else question.question
        thread = Thread.objects.create(owner=by, team=team, title=title[:200])
        outer = OuterRun.objects.create(owner=by, name=asked.run_id, thread=thread)
    elif Pause.objects.open().filter(run__thread=outer.thread).exists():
        raise WaitOpen(_why_not(asked, by))
    pause = external_runs.open_wait(outer.thread, question)
    if token is not None and not policy.answerers(pause).exists():
        raise WaitInvalid({"team": [NOBODY]})
    keyed.made(pause.run.shown_id)
    if asked.callback_url:
        endpoints.keep_callback(outer.thread, asked.callback_url, secret=asked.callback_secret)
    for to in asked.recipients:
        _send(pause, to, asked.question)
    return Wait.objects.create(
        outer=outer,
        pause=pause,
        node_id=asked.node_id,
        digest=asked.digest,
        recipients=[{"to": to, "question": asked.question} for to in asked.recipients],
        callback_url=asked.callback_url,
        callback_secret=asked.callback_secret,
        token=token,
    )


NOBODY = "Nobody could answer this question, since who asks does not approve. Name others to ask."


def _check_room(token: ApiToken) -> None:
    most = int(settings.WAYSTATION_TOKEN_WAITS)
    if Wait.objects.filter(token=token, pause__in=Pause.objects.open()).count() >= most:
        raise TooManyWaits(
            f"This token has {most} open questions, as many as it may. Nothing was asked: wait for "
            "answers, or withdraw some."
        )


def _known(asked: WaitRequest, by: User) -> Wait | None:
    shown = Wait.objects.select_related("outer", "pause__run__thread")
    return shown.filter(outer__owner=by, outer__name=asked.run_id, digest=asked.digest).first()


def _why_not(asked: WaitRequest, by: User) -> str:
    waiting = (
        Pause.objects.open()
        .filter(run__thread__outer_run__owner=by, run__thread__outer_run__name=asked.run_id)
        .exists()
    )
    if waiting:
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
        raise WaitInvalid({"team": ["You are in no team of this name."]})
    return team


def _checked(asked: WaitRequest, token: ApiToken | None) -> external_runs.Question:
    """What is asked, as the machine takes it; raises WaitInvalid."""
    _check_id(asked.run_id, token)
    for name, longest in LONGEST.items():
        if len(getattr(asked, name)) > longest:
            raise WaitInvalid({name: [f"Up to {longest} characters."]})
    try:
        plain = asked.told
        codec.check(plain, "wait")
        if codec.holds_unreadable(plain):
            raise WaitInvalid(
                {
                    "": [
                        (
                            "There are characters in it that cannot be kept: a NUL, or bytes "
                            "that are no UTF-8."
                        )
                    ]
                }
            )
        for name in ("state", "calls"):
            if len(codec.encode(plain[name])) > MAX_STATE:
                raise WaitInvalid({name: [f"Up to {MAX_STATE} bytes."]})
        calls = external_runs.checked_calls(asked.calls)
        if calls and (asked.required_inputs or asked.choices):
            raise WaitInvalid({"calls": ["A question about calls asks for nothing else."]})
        wanted = tool_calls.required(calls) if calls else asked.required_inputs
        inputs = schemas.check_inputs(wanted) if wanted else {}
        rules = review_rules.check(dict(asked.review), step_options.calendars())
    except codec.NotJson as error:
        raise WaitInvalid({"": [str(error)]}) from error
    except tool_calls.CallsRefused as error:
        raise WaitInvalid({"calls": [str(error)]}) from error
    except schemas.SchemaRefused as error:
        raise WaitInvalid({f"required_inputs.{error.field}".rstrip("."): [error.words]}) from error
    except review_rules.ReviewInvalid as error:
        raise WaitInvalid({f"review.{error.field}".rstrip("."): [str(error)]}) from error
    if rules.get("undo"):  # the other engine goes on as soon as it is told
        raise WaitInvalid(
            {"review.undo": ["An answer to another engine is not taken back; leave it out."]}
        )
    if taken := owned.named(asked.state, elsewhere=True):
        raise WaitInvalid(
            {
                "state": [
                    (
                        f"{', '.join(taken)}: these names are the engine's own here. Put them "
                        "one level deeper."
                    )
                ]
            }
        )
    if taken := owned.named(schemas.asked_for(inputs), elsewhere=True):
        raise WaitInvalid(
            {
                "required_inputs": [
                    (
                        f"{', '.join(taken)}: these names are the engine's own here. Ask under "
                        "another name."
                    )
                ]
            }
        )
    if asked.prompt_id and not external_runs.is_prompt_id(asked.prompt_id):
        raise WaitInvalid(
            {
                "prompt_id": [
                    "Up to 200 letters, digits and . _ : ~ @ = + -; not beginning with pse_."
                ]
            }
        )
    if asked.callback_url:
        try:
            ssrf.parse(asked.callback_url)
        except ssrf.AddressRefused as error:
            raise WaitInvalid({"callback_url": [str(error)]}) from error
    for to in asked.recipients:
        _check_recipient(to)
    if asked.callback_secret and not signatures.is_secret(asked.callback_secret):
        raise WaitInvalid({"callback_secret": ["whsec_ and the base64 of at least 24 bytes."]})
    ways, labels = tool_calls.ways_out(calls, to="") if calls else _ways(asked, inputs)
    return external_runs.Question(
        state=dict(asked.state),
        question=asked.question or asked.blocking_reason.replace("_", " ").capitalize(),
        content=asked.content or str(inputs.get("description", "")),
        blocking_reason=asked.blocking_reason,
        required_inputs=inputs,
        ways=ways,
        labels=labels,
        facts=[("Run", asked.run_id), ("Node", asked.node_id)]
        if token is None
        else [("Asked by the agent", token.name)],
        review=dict(rules),
        node_id=asked.node_id,
        prompt_id=asked.prompt_id,
        calls=calls,
        bare=[APPROVE] if calls else [],
        agent="" if token is None else token.name,
    )


def _check_recipient(recipient: str) -> None:
    if (wrong := recipients.why_not(recipient)) is not None:
        raise WaitInvalid({"recipients": [wrong]})


def _check_id(name: str, token: ApiToken | None) -> None:
    if name.startswith(OF_TOKENS) != (token is not None):
        raise WaitInvalid({"run_id": [f"{OF_TOKENS} begins the names of agents' own questions."]})
    try:
        ids.parse(Run.PREFIX, name)
        ours = True
    except ValueError:
        ours = False
    if ours or name in RESERVED:
        raise WaitInvalid(
            {
                "run_id": [
                    "This is an id of Waystation's own; use the one that your engine gave the run."
                ]
            }
        )
    if not RUN_ID.fullmatch(name):
        raise WaitInvalid(
            {
                "run_id": [
                    "Up to 200 letters, digits and . _ : ~ @ = + -, the first a letter or digit."
                ]
            }
        )


def _ways(asked: WaitRequest, inputs: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Answers and their labels. All of them lead out of here."""
    usual, label = (ANSWER, "Send") if inputs else (APPROVE, "Approve")
    chosen = {choice["name"]: choice["label"] for choice in asked.choices}
    if len(chosen) < len(asked.choices) or chosen.keys() & {usual, CANCEL, "revise"}:
        raise WaitInvalid(
            {
                "choices": [
                    f"Each needs a name of its own, and {usual}, revise and cancel are taken."
                ]
            }
        )
    labels = ({} if usual == APPROVE else {usual: label}) | chosen
    return {usual: "", **dict.fromkeys(chosen, "")}, labels


def find(run_id: str, *, by: User) -> tuple[Run, Wait | None]:
    """A run by its own id here (`run_…`), or the newest wait of another engine's run: one's own
    first, else a colleague's.

    Raises NotFound.
    """
    try:
        key: uuid.UUID | None = ids.parse(Run.PREFIX, run_id)
    except ValueError:
        key = None
    if key is not None:
        run = Run.objects.visible_to(by).shown().filter(pk=key).first()
        wait = (
            Wait.objects.select_related("outer", "pause").filter(pause__run=run).first()
            if run
            else None
        )
        if run is None:
            raise NotFound("There is no such run.")
        return run, wait
    if not RUN_ID.fullmatch(run_id):
        raise NotFound("There is no such run.")
    visible = OuterRun.objects.filter(name=run_id, thread__in=Thread.objects.visible_to(by))
    mine = sorted(visible, key=lambda outer: outer.owner_id != by.pk)
    # whose is meant is not to be guessed
    if not mine or (mine[0].owner_id != by.pk and len(mine) > 1):
        raise NotFound("There is no such run.")
    wait = (
        Wait.objects.select_related("outer", "pause").filter(outer=mine[0]).order_by("-id").first()
    )
    if wait is None:
        raise NotFound("There is no such run.")
    return Run.objects.shown().get(pk=wait.pause.run_id), wait


@transaction.atomic(durable=True)
def tell(wait: Wait, recipient: str, question: str, *, by: User) -> None:
    """Have somebody told of an open question, once each.

    Raises WaitInvalid, quotas.OutsideNotAllowed and quotas.QuotaUsed.
    """
    _check_recipient(recipient)
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
