"""An answer in words, as people write it into a mail or a chat.

What is clear becomes an `Answer`, which `decide` judges; of what is not, nothing is guessed.
"""

from __future__ import annotations

import re
from dataclasses import replace

from django.utils.translation import gettext

from checkpoints import store
from hitl.channels.protocol import Outcome
from hitl.decisions import answers, services
from hitl.decisions.reviewers import policy
from hitl.decisions.services import Answer
from hitl.models import Decision, Via, Vote
from runs.models import Pause
from runs.workflows.sequence import CANCEL, REVISE
from runs.workflows.wait_for_input import ANSWER

SHORTEST = 3
"""Words of a feedback without `revise:` before it: less is a yes or no of some kind."""
VERDICTS = frozenset(
    {
        "accept", "accepted", "agree", "agreed", "approve", "approved", "cancel", "cancelled",
        "confirm", "confirmed", "decline", "denied", "deny", "done", "fine", "go", "good", "great",
        "i'm", "ja", "jein", "lgtm", "looks", "nein", "no", "nope", "not", "ok", "okay", "please",
        "reject", "rejected", "sure", "thank", "thanks", "yep", "yes",
    }
)  # fmt: skip
"""First words that may mean yes or no. What begins with one, and is not exactly an answer, is not
clear.
"""


class Unclear(Exception):
    """The words are no answer to this question; the message says how to answer."""

    code = "unclear"


def answer_in(text: str, pause: Pause, *, via: Via, revision: int | None) -> Answer:
    """Read an answer: the name of one in the first line, `revise: …`, or the text itself as the
    answer or as feedback. Raises Unclear.
    """
    lines = text.strip().splitlines()
    first, rest = (lines[0], "\n".join(lines[1:])) if lines else ("", "")
    named, colon, behind = first.partition(":")
    action = _action(named, pause)
    if action == CANCEL:
        raise Unclear(gettext("To cancel, open the page: it says what ends."))
    if action == REVISE:
        feedback = f"{behind}\n{rest}".strip()
        if not feedback:
            raise Unclear(gettext('Say what should change: "revise: …".'))
        return Answer(REVISE, via, feedback=feedback, revision=revision)
    if action and not behind.strip() and action != ANSWER:
        if pause.wants_data(action):
            raise Unclear(gettext("This answer takes data: fill the form on the page."))
        return Answer(action, via, feedback=rest, revision=revision)
    if action and action != ANSWER:
        alone = gettext('Write "%(answer)s" alone in the first line, or open the page.')
        raise Unclear(alone % {"answer": named.strip()})
    said = f"{behind}\n{rest}".strip() if action and colon else text.strip()
    if not said:
        raise Unclear(_how(pause))
    return _free(said, pause, via=via, revision=revision)


def _free(text: str, pause: Pause, *, via: Via, revision: int | None) -> Answer:
    """A text that names no answer."""
    if ANSWER in pause.answers:
        if not pause.required_inputs:
            return as_input(Answer(ANSWER, via, feedback=text, revision=revision))
        if _one_text(pause):
            return Answer(ANSWER, via, payload={"input": text}, revision=revision)
        raise Unclear(gettext("This question asks for several things: fill the form on the page."))
    words = re.findall(r"[\w']+", text.casefold(), re.ASCII)
    if REVISE in pause.answers and len(words) >= SHORTEST and words[0] not in VERDICTS:
        return Answer(REVISE, via, feedback=text, revision=revision)
    raise Unclear(_how(pause))


def takes_words(pause: Pause, action: str) -> bool:
    """Whether an answer comes with something to write or to choose."""
    reasons = pause.review.get("reason_required", [])
    return action in {REVISE, ANSWER, *reasons} or pause.wants_data(action)


def offered(pause: Pause) -> list[str]:
    """The answers that a message has buttons for."""
    return [name for name in pause.answers if name != REVISE or pause.may_revise]


def as_input(answer: Answer) -> Answer:
    """An answer in words, as the steps that follow read it: as any input."""
    if answer.action != ANSWER or answer.payload is not None:
        return answer
    return replace(answer, update={"input": answer.feedback})


def _one_text(pause: Pause) -> bool:
    return bool(pause.required_inputs.get("required") == ["input"])


def _action(text: str, pause: Pause) -> str:
    """The answer that a text names, by its name or by the words on its button; "" for none."""
    wanted = " ".join(text.split()).strip(" .!,*_").casefold()
    known = {name: name for name in [*pause.answers, CANCEL]}
    for name in pause.answers:  # as the button says, in English too
        known |= dict.fromkeys((one.casefold() for one in answers.labels_of(pause, name)), name)
    found: str = known.get(wanted, "")
    return found


def _how(pause: Pause) -> str:
    names = [name for name in pause.answers if not pause.wants_data(name)]
    clear = ", ".join(f'"{name}: …"' if name == REVISE else f'"{name}"' for name in names)
    how = gettext("It was not clear what you answer. In the first line, write %(answers)s.")
    return how % {"answers": clear or gettext("the answer")}


def give(pause: Pause, answer: Answer, *, by: policy.Actor) -> Outcome:
    """Decide, and say what became of it; raises nothing that `decide` refuses with."""
    try:
        decision = services.decide(pause.pk, answer, by=by)
    except services.NotFound:
        gone = gettext("You may not answer this question any more.")
        return Outcome(False, "not_found", gone, pause=pause)
    except (
        services.AnswerInvalid,
        services.AlreadyAnswered,
        services.RevisionMismatch,
        store.CheckpointDamaged,
        policy.Refused,
    ) as error:
        errors = error.errors if isinstance(error, services.AnswerInvalid) else {}
        return Outcome(False, str(error.code), str(error), errors, pause)
    return recorded(pause, decision)


def recorded(pause: Pause, given: Decision | Vote) -> Outcome:
    """What is said of an answer that was taken."""
    label = answers.label_of(pause, given.action)
    if isinstance(given, Vote):
        text = gettext("“%(answer)s” was recorded as yours; others must answer too.")
        return Outcome(True, "voted", text % {"answer": label}, pause=pause)
    text = gettext("“%(answer)s” was recorded as your answer.")
    return Outcome(True, "answered", text % {"answer": label}, pause=pause)
