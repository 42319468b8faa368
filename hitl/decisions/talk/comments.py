"""Comments at a question: said, taken back, meant for somebody, taken along by a revision.

They decide nothing. No step reads them, but for those that a reviewer sends along with a wish for a
revision: these stand in the decision's own words, so the ledger says what the step was told.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from django.db import models, transaction
from django.db.models import Prefetch, QuerySet
from django.utils.translation import gettext

from checkpoints.database import clock, people
from checkpoints.database.people import NAME, User
from checkpoints.events import log
from checkpoints.models import EventKind
from checkpoints.state import codec
from checkpoints.store.prepared_queries import Prepared
from hitl.decisions import notifications, presence, visibility
from hitl.decisions.answers import Answer
from hitl.decisions.errors import AnswerInvalid, NotFound
from hitl.decisions.reviewers import delegations, policy
from hitl.decisions.reviewers.policy import ReviewContext
from hitl.decisions.talk import patches
from hitl.models import Comment, Mention
from hitl.models.outbound import Occasion
from runs import keyed
from runs.models import Pause
from runs.services import PauseClosed
from runs.states import PauseStatus
from runs.workflows.refusals import FieldRefused
from runs.workflows.sequence import REVISE

LONGEST = 4_000
"""Characters of a comment."""
MOST = 500
"""Comments that a question takes."""
MEANT = 10
"""People that one comment mentions or asks."""
TOLD = 300
"""Characters of a comment that a message to whom it mentions holds."""
ALONG = "Comments of the reviewers:"
"""The line of a decision's words above the comments that went along."""
_NAMED = re.compile(r"(?<![\w.@+-])@([\w.@+-]{1,150})")


class CommentRefused(FieldRefused):
    """The comment cannot be taken. `field` names what is wrong. Nothing was kept."""

    code = "comment_refused"


class TooManyComments(Exception):
    """The question has as many comments as it takes. Nothing was kept."""

    code = "too_many_comments"


def at(pause: Pause) -> list[Comment]:
    """What was said at a question, in its order; of what was taken back, that it was."""
    said = _at.get(pause.pk) if getattr(pause, "has_comments", True) else []
    if said:
        models.prefetch_related_objects(said, _mentions())
    return said


def earlier(pause: Pause) -> list[Comment]:
    """What was said at the earlier revisions of the same question."""
    before = Pause.objects.filter(run=pause.run_id, step=pause.step, pk__lt=pause.pk)
    said = Comment.objects.standing().filter(pause__in=before.values("pk"))
    return list(_shown(said).select_related("pause"))


def _shown(comments: QuerySet[Comment]) -> QuerySet[Comment]:
    return comments.select_related("author").prefetch_related(_mentions()).order_by("pk")


def _mentions() -> Prefetch[Any]:
    return Prefetch("mentions", Mention.objects.select_related("person").order_by("pk"))


_at = Prepared(
    lambda key: Comment.objects.filter(pause=key).select_related("author").order_by("pk"),
    uuid.UUID,
)


def may_ask(standing: ReviewContext) -> bool:
    """Whether a person may show a question to a colleague: who asked for the work, and who answers
    it.
    """
    return (
        standing.by.is_superuser
        or standing.by.pk == standing.pause.run.thread.owner_id
        or bool(standing.seats)
    )


def colleagues(by: User) -> QuerySet[User]:
    """Whom a person may ask for an opinion: people of the same teams, as with delegations; an
    administrator anybody.
    """
    if by.is_superuser:
        return User.objects.filter(is_active=True).exclude(pk=by.pk).order_by(NAME)
    return delegations.colleagues(by)


class PatchLine(NamedTuple):
    """A line of the patch under review."""

    path: str
    line: int
    side: str = "new"
    """`old` where it is counted before the change."""


def add(
    pause_id: uuid.UUID,
    text: str,
    *,
    by: User,
    ask: Sequence[str] = (),
    about: PatchLine | None = None,
) -> Comment:
    """Say something at an open question.

    Whom the text names as `@username`, and who sees the question, is told.

    Args:
        text: plain text, up to LONGEST characters.
        ask: usernames of colleagues whose opinion is asked. They see the question from then on as
            an observer does, and are told; by this alone they cannot answer it.
        about: the line of the patch that it is about; None where it is about the whole.
    Raises:
        NotFound: no such question for this person.
        PauseClosed: it was answered or is over.
        CommentRefused, TooManyComments.
    """
    pause = visibility.find_shown(pause_id, by=by)
    if pause.status != PauseStatus.OPEN:
        raise PauseClosed(_settled(pause))
    text = _text(text)
    asked = _asked(pause, ask, by)
    named = [person for person in _named(text, by, but=asked) if _sees(pause, person)]
    if about is not None:
        _check_line(pause, about)
    return _add(pause, text, by=by, asked=asked, named=named, about=about)


def _check_line(pause: Pause, about: PatchLine) -> None:
    """Raise CommentRefused where the patch shows no such line."""
    files = patches.read(pause).files if pause.patch_digest else []
    of_path = [file for file in files if file.path == about.path]
    if not of_path:
        raise CommentRefused("path", gettext("The patch under review has no such file."))
    if about.side not in {"old", "new"}:
        raise CommentRefused(
            "side", gettext("A line is counted before the change, `old`, or after, `new`.")
        )
    if not any(file.has(about.side, about.line) for file in of_path):
        raise CommentRefused(
            "line",
            gettext("The patch does not show line %(line)s of this file. Nothing was kept.")
            % {"line": about.line},
        )


def _settled(pause: Pause) -> str:
    return gettext("%(pause)s was settled meanwhile: the comment was not kept.") % {
        "pause": pause.shown_id
    }


@transaction.atomic(durable=True)
def _add(
    pause: Pause,
    text: str,
    *,
    by: User,
    asked: list[User],
    named: list[User],
    about: PatchLine | None,
) -> Comment:
    # of two that come at once the second sees the first, so none is over the limit
    held = Pause.objects.open().select_for_update(no_key=True).only("pk").filter(pk=pause.pk)
    if not held:
        raise PauseClosed(_settled(pause))
    if Comment.objects.filter(pause=pause).count() >= MOST:
        raise TooManyComments(
            gettext("A question takes %(most)s comments. This one was not kept.") % {"most": MOST}
        )
    comment = Comment.objects.create(
        pause=pause,
        author=by,
        by_name=policy.name_of(by),
        text=text,
        made_at=clock.now(),
        **(about._asdict() if about is not None else {}),
    )
    keyed.made(comment.shown_id)
    presence.stop_writing(pause, by=by)
    keyed.made(pause.shown_id)  # who sees it is told once more what was answered
    Mention.objects.bulk_create(
        Mention(comment=comment, person=person, asked=wanted)
        for wanted, persons in ((True, asked), (False, named))
        for person in persons
    )
    for persons, does in ((asked, "asks for your opinion"), (named, "mentions you")):
        notifications.plan(
            pause,
            Occasion.MENTIONED,
            to=persons,
            mark=comment.shown_id,
            words=f"{comment.by_name} {does}: {text[:TOLD]}",
        )
    _tell(pause, "commented", comment, asked=[person.get_username() for person in asked])
    return comment


def withdraw(comment_id: uuid.UUID, *, by: User) -> Comment:
    """Take back one's own comment: its words go, and whom it asked no longer sees the question by
    it. What a revision took along stays in the decision. Taken back twice is once.

    Raises NotFound: there is none of this person's.
    """
    comment = _shown(Comment.objects.filter(pk=comment_id, author=by)).first()
    if comment is None or not visibility.sees_pause(comment.pause_id, by=by):
        raise NotFound(gettext("There is no such comment of yours."))
    _withdraw(comment)
    comment.refresh_from_db()
    return comment


@transaction.atomic(durable=True)
def _withdraw(comment: Comment) -> None:
    standing = Comment.objects.standing().filter(pk=comment.pk)
    if standing.update(text="", withdrawn_at=clock.now()):
        _tell(comment.pause, "comment_withdrawn", comment)


def _tell(pause: Pause, change: str, comment: Comment, *, asked: Sequence[str] = ()) -> None:
    """The log says that something was said, not what: words that are taken back are gone."""
    event = {
        "what": change,
        "pause_id": pause.shown_id,
        "by": comment.by_name,
        "comment_id": comment.shown_id,
        **({"asked": list(asked)} if asked else {}),
    }
    log.append(pause.run.thread_id, pause.run_id, [(EventKind.PAUSE_UPDATED, event)])


def along(pause: Pause, answer: Answer) -> Answer:
    """The answer with the comments in its words that it takes along. Raises AnswerInvalid."""
    if answer.comments_until is None:
        return answer
    if answer.action != REVISE:
        text = gettext("Comments go along with a revision alone.")
        raise AnswerInvalid.of("comments_until", text)
    said = list(Comment.objects.filter(pause=pause, pk__lte=answer.comments_until).order_by("pk"))
    if not said or said[-1].pk != answer.comments_until:
        text = gettext("There is no such comment at this question.")
        raise AnswerInvalid.of("comments_until", text)
    lines = [
        f"- {comment.by_name}{f' at {comment.place}' if comment.place else ''}: "
        f"{_indented(comment.text)}"
        for comment in said
        if comment.text
    ]
    words = [answer.feedback] if answer.feedback else []
    return replace(
        answer, feedback="\n\n".join([*words, "\n".join([ALONG, *lines])] if lines else words)
    )


def _indented(text: str) -> str:
    """Further lines of a comment stay part of its entry."""
    return "\n  ".join(text.splitlines())


def _text(text: str) -> str:
    text = text.strip()
    if not text:
        raise CommentRefused("text", gettext("Say something: the comment is empty."))
    if len(text) > LONGEST:
        raise CommentRefused(
            "text",
            gettext("A comment may have up to %(longest)s characters; this has %(text)s.")
            % {"longest": LONGEST, "text": len(text)},
        )
    if text != codec.readable(text):
        raise CommentRefused("text", gettext("The comment holds characters that cannot be kept."))
    return text


def _asked(pause: Pause, usernames: Iterable[str], by: User) -> list[User]:
    names = list(dict.fromkeys(filter(None, (name.strip() for name in usernames))))
    if not names:
        return []
    if len(names) > MEANT:
        raise CommentRefused(
            "ask", gettext("Up to %(meant)s people are asked at once.") % {"meant": MEANT}
        )
    if not may_ask(ReviewContext(pause, by)):
        raise CommentRefused(
            "ask",
            gettext("Only who answers the question, or asked for the work, shows it to others."),
        )
    found = list(colleagues(by).filter(people.called(*names))[: MEANT + 1])
    missing = [name for name in names if name not in {one.get_username() for one in found}]
    if missing:
        raise CommentRefused(
            "ask",
            gettext("“%(value)s” is not in any of your teams. Nobody was asked.")
            % {"value": missing[0][:150]},
        )
    return found


def _named(text: str, by: User, *, but: Sequence[User]) -> list[User]:
    """The people that a text names, in no order; a sign at the end may belong to the sentence."""
    names = {name for found in _NAMED.findall(text) for name in (found, found.rstrip(".@+-"))}
    if not names:
        return []
    others = User.objects.filter(people.called(*sorted(names)), is_active=True)
    return list(others.exclude(pk__in=[by.pk, *(one.pk for one in but)]).order_by("pk")[:MEANT])


def _sees(pause: Pause, person: User) -> bool:
    return visibility.sees_pause(pause.pk, by=person)
