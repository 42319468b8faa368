"""The page between an answer and its decision: where the risk is high, and where an answer would
leave words behind.

The same page serves a browser without JavaScript; with it, static/js/card.js shows its form as a
dialog. Programs are asked nothing twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext, ngettext

from hitl.decisions.answers import label_of
from hitl.decisions.reviewers import policy
from hitl.decisions.services import Judged
from hitl.forms.answers import DecisionForm
from hitl.forms.json_schema import SchemaForm
from hitl.forms.tool_calls import MOST_FIELDS, CallsForm
from hitl.rendering.own_words import own
from hitl.views.cards import contents, typed
from hitl.views.common import risk_words
from runs.models import Pause
from runs.workflows import Understood
from runs.workflows.sequence import APPROVE
from runs.workflows.tool_calls import APPROVE as CALLED
from runs.workflows.tool_calls import EDIT, REJECT, RESPOND

SURE = "sure"
"""The posted field that says that this page was seen."""


@dataclass(frozen=True)
class CallLook:
    """A call as it would be made."""

    tool: str
    risk: str
    arguments: list[tuple[str, str, str | None]]
    """Name, value, and what stood there before where a person changed it."""
    more: int
    """How many others there are."""


@dataclass(frozen=True)
class SecondLook:
    """What is asked before an answer is taken."""

    pause: Pause
    high: bool
    yes: str
    """What the button says that gives the answer."""
    happens: list[str]
    """What will happen, in sentences."""
    url: str
    about: str
    """What the question is called for who answers."""
    left: typed.Words = field(default_factory=list)
    """What the answer does not take along."""
    calls: list[CallLook] = field(default_factory=list)
    """The calls that would be made."""
    understood: Understood | None = None
    """Where the next step will not understand all words: what it will, and what not."""


def was_seen(request: HttpRequest) -> bool:
    """Whether the answer comes back from this page."""
    return request.POST.get(SURE) == "yes"


def needed(
    judged: Judged,
    pause: Pause,
    form: DecisionForm,
    inputs: SchemaForm | CallsForm | None,
    *,
    url: str,
) -> SecondLook | None:
    """What has to be asked before this answer, which would be taken, is decided; None where nothing
    has.

    Args:
        pause: the question as whoever answers is asked it.
        url: where the answer goes to.
    """
    answer = judged.answer
    goes_on = policy.approves(answer.action)
    high = goes_on and is_high(pause, answer.payload)
    left = typed.left_by(pause, form, inputs, judged.context.known, goes_on=goes_on)
    understood = judged.understood
    if understood is not None and not understood.not_understood:
        understood = None
    if not high and not left and understood is None:
        return None
    edits = typed.edits_of(pause, form, inputs) if goes_on else 0
    label = label_of(pause, answer.action)
    if edits:
        label += " " + ngettext("with %(edits)s edit", "with %(edits)s edits", edits) % {
            "edits": edits
        }
    happens = _happens(pause, answer.action, answer.payload)
    if answer.edited_content is not None:
        happens.append(gettext("The next step gets the text as you edited it."))
    yes = _yes(label) if high else _without(label)
    calls = _calls(inputs) if high and isinstance(inputs, CallsForm) else []
    return SecondLook(pause, high, yes, happens, url, about(pause), left, calls, understood)


def from_link(
    judged: Judged,
    request: HttpRequest,
    pause: Pause,
    form: DecisionForm,
    inputs: SchemaForm | CallsForm | None,
    *,
    about: str,
) -> SecondLook | None:
    """The same for who answers from a link, where nothing is of high risk; of the run they are told
    no more than that page tells them.
    """
    action = form.cleaned_data["action"]
    left = typed.left_by(pause, form, inputs, pause.known, goes_on=policy.approves(action))
    yes = _without(label_of(pause, action))
    said = judged.understood
    understood = said if said is not None and said.not_understood else None
    if not left and understood is None:
        return None
    return SecondLook(pause, False, yes, [], request.path, about, left, understood=understood)


def of_message(pause: Pause, text: str, *, url: str) -> SecondLook | None:
    """The same for a message that would let a run of high risk go on."""
    action = APPROVE if text == "APPROVE" else "answer"
    if pause.risk != "high" or text == "REJECT" or action not in pause.answers:
        return None
    return SecondLook(
        pause,
        True,
        _yes(label_of(pause, action)),
        _happens(pause, action, None),
        url,
        about(pause),
    )


def show(request: HttpRequest, look: SecondLook) -> HttpResponse:
    """Ask; all that was posted is in the page, to be sent again."""
    posted = [
        (name, value)
        for name, values in request.POST.lists()
        for value in values
        if name not in {"csrfmiddlewaretoken", SURE}
    ]
    return render(request, "hitl/pauses/sure.html", {"sure": look, "posted": posted})


def _yes(label: str) -> str:
    return gettext("Yes, %(label)s") % {"label": label}


def _without(label: str) -> str:
    """What the button says that sends an answer, and leaves out what it does not take."""
    return gettext("%(label)s without it") % {"label": label}


def about(pause: Pause) -> str:
    return f"{contents.name_of(pause)} · {own(pause.question)}"


def is_high(pause: Pause, payload: Any) -> bool:
    """Whether this answer, which lets the run go on, does what is of high risk: not where it
    rejects each such call, or answers it in the tool's place.
    """
    if pause.risk != "high" or pause.review.get("risk") == "high" or payload is None:
        return pause.risk == "high"
    given = payload["calls"]
    return any(
        call["risk"] == "high"
        and given.get(call["id"], {}).get("decision") not in {REJECT, RESPOND}
        for call in pause.calls
    )


def _calls(form: CallsForm) -> list[CallLook]:
    """The calls that are made, with their arguments as they go out."""
    made = [row for row in form.rows if row.decision not in {REJECT, RESPOND}]
    return [
        CallLook(
            row.call["tool"],
            row.call["risk"],
            (sent := row.sent)[:MOST_FIELDS],
            len(sent[MOST_FIELDS:]),
        )
        for row in made
    ]


def _happens(pause: Pause, action: str, payload: Any) -> list[str]:
    """What comes of an answer, in sentences."""
    if not policy.approves(action):
        return []
    led = contents.leads(pause).get(action)
    sentences = [
        gettext("%(step)s runs next.") % {"step": led} if led else contents.completed(pause.run)
    ]
    sentences += [str(effect) for effect in pause.effects] if action == APPROVE else []
    given = payload["calls"] if pause.calls and payload is not None else {}
    words = {
        CALLED: gettext("%(tool)s is called as it stands."),
        EDIT: gettext("%(tool)s is called with your changes."),
        REJECT: gettext("%(tool)s is not called."),
        RESPOND: gettext("%(tool)s is not called; your words are its result."),
    }
    for call in pause.calls:
        decision = given.get(call["id"], {}).get("decision", CALLED)
        risk = f" ({risk_words(call['risk'])})" if call["risk"] != "normal" else ""
        sentences.append(words[decision] % {"tool": f"{call['tool']}{risk}"})
    if policy.quorum(pause) > 1:
        sentences.append(
            gettext("It counts as one of %(count)s approvals.") % {"count": policy.quorum(pause)}
        )
    return sentences
