"""What another engine asks: its words, checked, as the machine takes them."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

from checkpoints import ids
from checkpoints.database import clock
from checkpoints.state import codec
from hitl.models import ApiToken
from hitl.outbound import recipients
from hitl.wait_gate import signatures
from runs.definitions import step_options
from runs.models import Run
from runs.security import ssrf
from runs.services import external_runs
from runs.workflows import owned, schemas, tool_calls
from runs.workflows.base import StepFailed
from runs.workflows.refusals import FieldRefused, FieldsRefused, as_text
from runs.workflows.reviews import rules as review_rules
from runs.workflows.reviews import stages
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
NODE, DATA, VERDICT = "ask", "needs_input", "needs_approval"
"""The node, and the two blocking reasons, of a question that names none."""
VALID_FOR = 3_600
"""Seconds for which the answer under a key is one, unless who asks says another time."""
LONGEST_VALID = 366 * 24 * 3_600
RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:~@=+-]{0,199}", re.ASCII)
"""What may stand in an address as it is."""


class WaitInvalid(FieldsRefused):
    """The wait cannot be opened as it is; nothing was written."""

    code = "wait_invalid"

    def told(self, errors: Mapping[str, list[str]]) -> str:
        return f"No wait was opened: {as_text(errors)}"


@dataclass(frozen=True, kw_only=True)
class WaitRequest:
    """What another engine asks for.

    Whether the same words under the same `run_id` are the same wait, `waits.open_wait` says.
    """

    run_id: str
    """The engine's own id of its run."""
    node_id: str = NODE
    """Where the engine goes on once it has the answer."""
    blocking_reason: str = ""
    """Left out, it is DATA or VERDICT, and the question is there."""
    state: Mapping[str, Any] = field(default_factory=dict)
    required_inputs: Mapping[str, Any] = field(default_factory=dict)
    question: str = ""
    content: str = ""
    choices: Sequence[Mapping[str, str]] = ()
    """Answers beside the usual one: `name` and `label` each."""
    review: Mapping[str, Any] = field(default_factory=dict)
    """Who answers, by when and how: `runs.workflows.reviews.rules`."""
    next_deadline: str = ""
    """The deadline as a moment in ISO 8601 with its zone, in place of `after` of the rules'."""
    recipients: Sequence[str] = ()
    prompt_id: str = ""
    """What `POST /api/v1/resume` may call the question, beside its id."""
    key: str = ""
    """Names what is asked, so that the same words are the same question, answered or not; without
    one an answer is never given twice.
    """
    valid_for: int | None = None
    """Seconds for which the answer under a key is one; None for VALID_FOR. An older one is asked
    anew.
    """
    team: str = ""
    callback_url: str = ""
    callback_secret: str = ""
    calls: Sequence[Call] = ()
    """Decided one by one, in place of `required_inputs` and `choices`."""

    @property
    def reason(self) -> str:
        return self.blocking_reason or (DATA if self.required_inputs else VERDICT)

    @property
    def told(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        lists = {
            "choices": [dict(choice) for choice in self.choices],
            "recipients": list(self.recipients),
            "calls": [tool_calls.told(call) for call in self.calls],
        }
        names = [column.name for column in fields(self) if column.name != "valid_for"]
        return {
            **{name: getattr(self, name) for name in names},
            "blocking_reason": self.reason,
            **lists,
        }

    @property
    def digest(self) -> str:
        """Of all but the secret, which may be replaced, and the time for which an answer counts.

        A wait without a name or calls has the digest that it had before there were any.
        """
        later = {"prompt_id", "calls", "next_deadline"}
        bound = {name: value for name, value in self.told.items() if name not in later or value}
        return codec.digest(codec.encode({**bound, "callback_secret": ""}))


def check(asked: WaitRequest, token: ApiToken | None) -> external_runs.ExternalQuestion:
    """What is asked, as the machine takes it; raises WaitInvalid.

    Args:
        token: of the agent that asks; None for another engine.
    """
    _check_id(asked.run_id, token)
    with _refusing(asked):
        _check_words(asked)
        calls = external_runs.checked_calls(asked.calls)
        if calls and (asked.required_inputs or asked.choices):
            raise WaitInvalid.of("calls", "A question about calls asks for nothing else.")
        wanted = tool_calls.required(calls) if calls else asked.required_inputs
        inputs = schemas.check_inputs(wanted) if wanted else {}
        given, until = _until(asked)
        rules = review_rules.check(given, step_options.calendars())
        stages.check_inputs(inputs, rules)
    if rules.get("undo"):  # the other engine goes on as soon as it is told
        raise WaitInvalid.of(
            "review.undo", "An answer to another engine is not taken back; leave it out."
        )
    _check_names(asked, inputs)
    _check_addresses(asked)
    answers, labels = tool_calls.answers_to(calls, to="") if calls else _answers(asked, inputs)
    try:
        outside = external_runs.asked_outside(rules, calls, answers)
    except StepFailed as error:
        raise WaitInvalid.of("review.external", str(error)) from error
    return external_runs.ExternalQuestion(
        state=dict(asked.state),
        question=asked.question or asked.reason.replace("_", " ").capitalize(),
        content=asked.content or str(inputs.get("description", "")),
        blocking_reason=asked.reason,
        required_inputs=inputs,
        answers=answers,
        labels=labels,
        facts=[("Run", asked.run_id), ("Node", asked.node_id)]
        if token is None
        else [("Asked by the agent", token.name)],
        review=rules,
        until=until,
        outside=outside,
        node_id=asked.node_id,
        prompt_id=asked.prompt_id,
        calls=calls,
        answers_without_input=[APPROVE] if calls else [],
        agent="" if token is None else token.name,
    )


def _check_words(asked: WaitRequest) -> None:
    if not (asked.question or asked.blocking_reason):
        raise WaitInvalid.of("question", "Say what is asked.")
    if asked.valid_for is not None and not asked.key:
        raise WaitInvalid.of("valid_for", "It is about the answer under a key: name a key.")
    if not 0 <= (asked.valid_for or 0) <= LONGEST_VALID:
        raise WaitInvalid.of("valid_for", f"0 to {LONGEST_VALID} seconds.")
    for name, longest in LONGEST.items():
        if len(getattr(asked, name)) > longest:
            raise WaitInvalid.of(name, f"Up to {longest} characters.")
    plain = asked.told
    codec.check(plain, "wait")
    if codec.holds_unreadable(plain):
        raise WaitInvalid.of(
            "",
            "There are characters in it that cannot be kept: a NUL, or bytes that are no UTF-8.",
        )
    for name in ("state", "calls"):
        if len(codec.encode(plain[name])) > MAX_STATE:
            raise WaitInvalid.of(name, f"Up to {MAX_STATE} bytes.")


@contextmanager
def _refusing(asked: WaitRequest) -> Iterator[None]:
    """Refuse the wait where a rule of questions refuses a part of it."""
    try:
        yield
    except codec.NotJson as error:
        raise WaitInvalid.of("", str(error)) from error
    except tool_calls.CallsRefused as error:
        raise WaitInvalid.of("calls", str(error)) from error
    except schemas.SchemaRefused as error:
        field = f"required_inputs.{error.field}".rstrip(".")
        raise WaitInvalid.of(field, error.words) from error
    except review_rules.ReviewInvalid as error:
        if asked.next_deadline and error.field == "deadline.after":
            raise WaitInvalid.of("next_deadline", "Up to ten years from now.") from error
        raise WaitInvalid.of(f"review.{error.field}".rstrip("."), str(error)) from error
    except FieldRefused as error:  # of stages, each of which brings its own part
        field = f"required_inputs.{error.field}".rstrip(".")
        raise WaitInvalid.of(field, str(error)) from error


def _check_names(asked: WaitRequest, inputs: Mapping[str, Any]) -> None:
    """Refuse names of data that are the engine's own, and a name of the question that is none."""
    for name, brought, instead in (
        ("state", asked.state, "Put them one level deeper."),
        ("required_inputs", schemas.asked_for(inputs), "Ask under another name."),
    ):
        if taken := owned.named(brought, elsewhere=True):
            names = ", ".join(taken)
            raise WaitInvalid.of(name, f"{names}: these names are the engine's own here. {instead}")
    if asked.prompt_id and not external_runs.is_prompt_id(asked.prompt_id):
        raise WaitInvalid.of(
            "prompt_id", "Up to 200 letters, digits and . _ : ~ @ = + -; not beginning with pse_."
        )


def _check_addresses(asked: WaitRequest) -> None:
    """Refuse what the answer, or word of the question, could not be sent to."""
    if asked.callback_url:
        try:
            ssrf.parse(asked.callback_url)
        except ssrf.AddressRefused as error:
            raise WaitInvalid.of("callback_url", str(error)) from error
    for to in asked.recipients:
        check_recipient(to)
    if asked.callback_secret and not signatures.is_secret(asked.callback_secret):
        raise WaitInvalid.of("callback_secret", "whsec_ and the base64 of at least 24 bytes.")


def _until(asked: WaitRequest) -> tuple[dict[str, Any], dt.datetime | None]:
    """The rules with a deadline that was given as a moment, and that moment.

    One that has passed is refused where the question opens: the same words may be the question that
    was asked before it.
    """
    review, deadline = dict(asked.review), asked.review.get("deadline") or {}
    if not asked.next_deadline or not isinstance(deadline, Mapping):
        return review, None
    if {"after", "calendar"} & deadline.keys():
        raise WaitInvalid.of(
            "next_deadline", "A moment here, or a duration in `deadline`: give one of them."
        )
    try:
        until = dt.datetime.fromisoformat(asked.next_deadline)
    except ValueError:
        until = None
    if until is None or until.tzinfo is None:
        text = "Give a moment with its zone, such as 2027-01-31T12:00:00Z."
        raise WaitInvalid.of("next_deadline", text)
    seconds = math.ceil((until - clock.now()).total_seconds())
    after = f"PT{seconds}S" if seconds > 0 else "P3650D"
    return {**review, "deadline": {**deadline, "after": after}}, until


def check_recipient(recipient: str) -> None:
    if (wrong := recipients.why_not(recipient)) is not None:
        raise WaitInvalid.of("recipients", wrong)


def _check_id(name: str, token: ApiToken | None) -> None:
    if name.startswith(OF_TOKENS) != (token is not None):
        raise WaitInvalid.of("run_id", f"{OF_TOKENS} begins the names of agents' own questions.")
    try:
        ids.parse(Run.PREFIX, name)
        ours = True
    except ValueError:
        ours = False
    if ours or name in RESERVED:
        raise WaitInvalid.of(
            "run_id",
            "This is an id of Waystation's own; use the one that your engine gave the run.",
        )
    if not RUN_ID.fullmatch(name):
        raise WaitInvalid.of(
            "run_id", "Up to 200 letters, digits and . _ : ~ @ = + -, the first a letter or digit."
        )


def _answers(
    asked: WaitRequest, inputs: Mapping[str, Any]
) -> tuple[dict[str, str], dict[str, str]]:
    """Answers and their labels. All of them lead out of here."""
    usual, label = (ANSWER, "Send") if inputs else (APPROVE, "Approve")
    chosen = {choice["name"]: choice["label"] for choice in asked.choices}
    if len(chosen) < len(asked.choices) or chosen.keys() & {usual, CANCEL, "revise"}:
        raise WaitInvalid.of(
            "choices", f"Each needs a name of its own, and {usual}, revise and cancel are taken."
        )
    labels = ({} if usual == APPROVE else {usual: label}) | chosen
    return {usual: "", **dict.fromkeys(chosen, "")}, labels
