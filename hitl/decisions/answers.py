"""An answer to a question, as every door hands it over; and whether the question takes it.

Nothing is written here but that an answer did not fit.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext

from checkpoints.state import codec, redaction
from hitl.decisions import notifications, tool_calls
from hitl.decisions.errors import AnswerInvalid
from hitl.decisions.reviewers import policy, turns
from hitl.decisions.reviewers.outsiders import Outsider
from hitl.decisions.reviewers.policy import Actor
from hitl.identity.factors import Factor
from hitl.models import Via, Vote
from hitl.models.channels import services
from hitl.rendering.own_words import own
from runs import keyed
from runs import services as runs
from runs.definitions import loading
from runs.models import Pause
from runs.services import external_runs, uploads
from runs.workflows import attachments, owned, refusals, registry, schemas
from runs.workflows.base.typed import faults, faults_of_parts
from runs.workflows.reviews import stages
from runs.workflows.sequence import APPROVE, CANCEL, REVISE
from runs.workflows.wait_for_input import ANSWER

USUAL = {APPROVE, REVISE, CANCEL, ANSWER}
"""Answers that have a label of their own accord: their names."""
MAX_FEEDBACK = 20_000
MAX_EDITED = 200_000
REFINED = 4_000
"""Characters that are kept of what was wrong with an answer."""


@dataclass(frozen=True)
class Answer:
    """An answer to a question: each door parses its input into one, and `services.decide` takes it.

    Who answers is no part of it.
    """

    action: str
    """`approve`, `revise` (needs `feedback`), `cancel`, or one of the question's own answers."""
    via: Via
    """The door."""
    _: KW_ONLY
    feedback: str = ""
    """Kept without the white space around it."""
    revision: int | None = None
    """The revision that was looked at; None where the door addresses the open question itself."""
    content_digest: str = ""
    """The digest of the content that was looked at; "" where the door does not name it."""
    payload: Any = None
    """The data that the question asks for (`required_inputs`); it joins the state by the workflow's
    reducers.
    """
    update: Mapping[str, Any] | None = None
    """Data that no question asked for; it joins the state too: the input of a run that was
    interrupted.
    """
    stage: str = ""
    """The stage of the review that it is for; "" the one whose turn it is, where whoever answers is
    asked at one alone.
    """
    edited_content: str | None = None
    """The content as it is approved; None where it stays as it was shown."""
    sender: Mapping[str, Any] | None = None
    """What a system says of the person who answered; kept in the log with the answer."""
    comments_until: uuid.UUID | None = None
    """With `revise`: the last of the question's comments that goes along, and all before it; None
    where none does.
    """
    early_at: dt.datetime | None = None
    """When the answer came, where that was before its question (`early_answers`): the ledger says
    so.
    """

    files: Sequence[uploads.Brought] = ()
    """What came along with the payload, which names each; `services.decide` alone says so."""
    factor: Factor | None = None
    """The second factor by which it is given; `services.decide` alone says so."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "feedback", self.feedback.strip())

    @property
    def is_bound(self) -> bool:
        """Whether the answer names the content that was looked at."""
        return self.revision is not None and bool(self.content_digest)

    @property
    def brought(self) -> Any:
        """The data that joins the state, asked for or not, as it is kept."""
        given = self.update if self.payload is None else self.payload
        return redaction.redact(dict(given)) if isinstance(given, Mapping) else given


def label_of(pause: Pause, action: str) -> str:
    """The words on the button of an answer, in the reader's language where they are ours."""
    label: str = pause.labels.get(action, "")
    return own(label or (action.capitalize() if action in USUAL else action))


def labels_of(pause: Pause, action: str) -> set[str]:
    """The same in each language that a person may write it in."""
    return {label_of(pause, action), pause.labels.get(action) or action}


def check_door(pause: Pause, answer: Answer) -> None:
    """Raise NotAllowed where a question of high risk is answered by a channel: in somebody else's
    program it cannot be looked at whole, and a second time.
    """
    if answer.via in services and pause.risk == "high":
        raise policy.NotAllowed(
            "high_risk_elsewhere",
            gettext("Nothing was decided: a question of high risk is answered on its own page."),
        )


def check_words(pause: Pause, answer: Answer) -> None:
    """Raise AnswerInvalid where an answer is none of the question's, or its words are missing or
    cannot be kept.
    """
    action, feedback = answer.action, answer.feedback
    if action != CANCEL and action not in pause.answers:
        known = ", ".join([*pause.answers, CANCEL])
        raise AnswerInvalid.of(
            "decision",
            gettext("“%(value)s” is not an answer here. Answers are: %(known)s.")
            % {"value": action[:60], "known": known},
            code="unknown_answer",
        )
    names = [stage["name"] for stage in stages.of(pause.review)]
    if answer.stage and answer.stage not in names:
        known = refusals.unknown("stage", answer.stage, names)
        raise AnswerInvalid.of("stage", known, code="unknown_stage")
    if len(feedback) > MAX_FEEDBACK:
        raise AnswerInvalid.of(
            "feedback",
            gettext("Feedback may have up to %(max_feedback)s characters; this has %(feedback)s.")
            % {"max_feedback": MAX_FEEDBACK, "feedback": len(feedback)},
        )
    if feedback != codec.readable(feedback):
        raise AnswerInvalid.of(
            "feedback",
            gettext(
                "The feedback holds characters that cannot be kept: a NUL, or bytes "
                "that are no UTF-8."
            ),
        )
    if action == REVISE and not feedback:
        raise AnswerInvalid.of(
            "feedback",
            gettext("Say what should change: a revision needs feedback."),
            code="feedback_required",
        )
    if action in pause.review.get("reason_required", []) and not feedback:
        raise AnswerInvalid.of(
            "feedback",
            gettext("Say why: the rules of this step ask for a reason with this answer."),
            code="reason_required",
        )
    if action == REVISE and not pause.may_revise:
        raise AnswerInvalid.of(
            "decision",
            gettext("This was sent back %(max_revisions)s times already. Approve it or cancel.")
            % {"max_revisions": pause.max_revisions},
            code="revisions_exhausted",
        )


def check_stage(pause: Pause, answer: Answer, theirs: Sequence[str]) -> None:
    """Raise AnswerInvalid where an approval does not say for which of several stages it is.

    `theirs` are those of whoever answers.
    """
    if policy.approves(answer.action) and not answer.stage and len(theirs) > 1:
        raise AnswerInvalid.of(
            "stage",
            gettext("You are asked at several stages: name one of %(join)s.")
            % {"join": ", ".join(theirs)},
            code="stage_required",
        )


def check_owned(pause: Pause, answer: Answer) -> None:
    """Raise AnswerInvalid where an answer brings what the engine alone writes, asked for or not."""
    elsewhere = pause.run.frozen.template_slug == external_runs.SLUG
    for given in (answer.payload, answer.update):
        if isinstance(given, Mapping) and (names := owned.named(given, elsewhere=elsewhere)):
            raise AnswerInvalid(
                {f"input.{name}": [owned.refusal([name])] for name in names}, code="input_reserved"
            )


def with_edit(pause: Pause, answer: Answer) -> Answer:
    """Give the answer with the edited content as it is kept, None where it reads as it was shown.

    Raises AnswerInvalid where it cannot be taken.
    """
    if answer.edited_content is None:
        return answer
    if not pause.review.get("edits") or not policy.approves(answer.action):
        message = gettext(
            "The content of this question is answered as it is: this answer takes no edited text."
        )
        raise AnswerInvalid.of("edited_content", message, code="edits_not_allowed")
    text = answer.edited_content.replace("\r\n", "\n").strip("\n")
    fault = (
        ""
        if text.strip()
        else gettext(
            "The edited text is empty. Cancel, or send it back, where nothing of it should stay."
        )
    )
    if len(text) > MAX_EDITED:
        fault = gettext(
            "The edited text may have up to %(max_edited)s characters; this has %(text)s."
        ) % {"max_edited": MAX_EDITED, "text": len(text)}
    elif text != codec.readable(text):
        fault = gettext(
            "The edited text holds characters that cannot be kept: a NUL, or bytes that are no "
            "UTF-8."
        )
    if fault:
        raise AnswerInvalid.of("edited_content", fault, code="edit_invalid")
    return replace(answer, edited_content=None if text == pause.content.strip("\n") else text)


def with_files(asked: Pause, answer: Answer, *, by: Actor) -> tuple[Answer, dict[str, list[str]]]:
    """Give the answer with each file of its data as it is kept, and what is wrong with those that
    cannot be taken: dotted path → sentences.
    """
    if answer.payload is None or not attachments.asked_in(asked.required_inputs):
        return answer, {}
    owner = by.address if isinstance(by, Outsider) else by
    desk = uploads.Desk(owner=owner, thread=asked.run.thread)
    payload, faults = uploads.take_in(asked.required_inputs, answer.payload, desk)
    return replace(answer, payload=payload, files=tuple(desk.brought)), faults


def check_payload(
    pause: Pause,
    answer: Answer,
    *,
    asked: Pause,
    by: Actor,
    votes: Sequence[Vote],
    bad_files: Mapping[str, list[str]],
) -> None:
    """Raise AnswerInvalid where the data that comes with an answer is not what is asked for.

    Args:
        asked: the question as whoever answers is asked it (`ReviewContextBase.asked`).
        votes: those that were given before.
        bad_files: as `with_files` gives it.
    """
    action, payload = answer.action, answer.payload
    wanted = asked.wants_data(action)
    if not wanted and payload is not None:
        message = (
            (gettext("The answer “%(action)s” takes no data.") % {"action": action})
            if asked.required_inputs
            else gettext("This question asks for no data.")
        )
        raise AnswerInvalid.of(
            "input",
            gettext("%(message)s Answer again without it.") % {"message": message},
            code="input_unexpected",
        )
    if not wanted:
        return
    errors = schemas.answer_faults(
        attachments.as_kept(asked.required_inputs), {} if payload is None else payload
    )
    errors |= bad_files
    if not errors and codec.holds_unreadable(payload):
        errors = {
            "": [
                gettext(
                    "The answer holds characters that cannot be kept: a NUL, or bytes that are "
                    "no UTF-8."
                )
            ]
        }
    errors = errors or tool_calls.faults(pause, payload)
    errors = errors or _type_faults(pause, payload, stage=answer.stage, votes=votes)
    if errors:
        _ask_refined(pause, errors, by=by)
        raise AnswerInvalid(
            {f"input.{field}" if field else "input": message for field, message in errors.items()},
            code="input_invalid",
        )


def _type_faults(
    pause: Pause, payload: Any, *, stage: str = "", votes: Sequence[Vote] = ()
) -> dict[str, list[str]]:
    """Tell what the validators of a declared type say of data that fit its schema.

    Where each stage of a review brings its own part, that is judged by itself, and the whole by the
    answer that brings the last part.

    Args:
        stage: the one that brings the payload.
        votes: those that were given before.
    """
    definition = pause.run.frozen
    steps = registry.with_sub_steps(definition.steps)
    function = next((step["function"] for step in steps if step["name"] == pause.step), "")
    asked = pause.required_inputs
    shape = loading.asked_type(definition.template_slug, pause.step, function, asked)
    if shape is None:
        return {}
    if not turns.each_brings_its_own(pause):
        return faults(shape, payload) if isinstance(payload, Mapping) else {}
    part = payload if isinstance(payload, Mapping) else {}
    found = faults_of_parts(shape, part)
    missing = schemas.declared(asked).keys() - {stage} - {vote.stage for vote in votes}
    if found or missing or not stage:
        return found
    return faults(shape, {**turns.brought(votes), **part})


@transaction.atomic(durable=True)
def _ask_refined(pause: Pause, errors: Mapping[str, list[str]], *, by: Actor) -> None:
    """Count an answer that did not fit, and ask again in words that name what was wrong.

    A question closed meanwhile stays so.
    """
    titles = {refusals.titled(pause.required_inputs, field): errors[field] for field in errors}
    refined = refusals.as_text(titles)[:REFINED]
    keyed.made(pause.shown_id)
    if Pause.objects.open().filter(pk=pause.pk).change(attempts=F("attempts") + 1, refined=refined):
        pause.refresh_from_db(fields=["attempts", "refined"])
        runs.tell_again(pause, errors=dict(errors), answered_by=by.get_username())
        notifications.plan_refined(pause, by=by)
