"""Asking one particular person or system for what a run waits for: the seam for integrations."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from django.db import transaction

from checkpoints.database.people import User, called
from checkpoints.state import codec
from hitl.decisions import notifications
from hitl.decisions.reviewers import policy
from hitl.models.outbound import Delivery, Occasion
from hitl.outbound import recipients
from runs.models import Pause
from runs.workflows.refusals import in_json

MARK = 32
"""Characters of a mark that are kept as they are."""


class CannotSend(Exception):
    """The request cannot be sent as it is; nothing was."""

    code = "cannot_send"


@transaction.atomic
def send_request(
    run_id: uuid.UUID,
    recipient: str,
    question: str = "",
    required_inputs: Mapping[str, Any] | None = None,
    *,
    mark: str = "",
) -> list[Delivery]:
    """Send the open question of a run to somebody, beside those who are asked anyway.

    It goes out after the commit.

    Args:
        recipient: a username of somebody who may answer, or the mail address of a person who has no
            account here.
        question: said instead of the question's own words.
        required_inputs: what the caller believes is asked for; a question that asks for something
            else is not sent.
        mark: names the request. The same recipient, question and mark again is the same request,
            and sends nothing.
    Returns:
        the messages, one for each place at which the recipient is reached.
    Raises:
        CannotSend: the run asks nothing, asks for something else, or there is no such recipient.
    """
    pause = (
        Pause.objects.open().select_related("run__thread", "run__parent").filter(run=run_id).first()
    )
    if pause is None:
        raise CannotSend("This run asks nothing at the moment.")
    if required_inputs is not None and dict(required_inputs) != pause.required_inputs:
        raise CannotSend("The open question asks for something else by now.")
    mark = f"request:{mark if len(mark) <= MARK else codec.digest(mark)[:MARK]}"
    before = set(
        Delivery.objects.filter(pause=pause, occasion=Occasion.ASKED, mark=mark).values_list(
            "pk", flat=True
        )
    )
    if (wrong := recipients.why_not(recipient)) is not None:
        raise CannotSend(wrong)
    if "@" in recipient and not User.objects.filter(called(recipient)).exists():
        notifications.write_to(pause, Occasion.ASKED, recipient, mark=mark, words=question)
    else:
        person = policy.answerers(pause).filter(called(recipient)).first()
        if person is None:
            raise CannotSend(f"Nobody named {in_json(recipient, 60)} may answer this question.")
        notifications.plan(pause, Occasion.ASKED, to=[person], mark=mark, words=question)
    return list(
        Delivery.objects.filter(pause=pause, occasion=Occasion.ASKED, mark=mark).exclude(
            pk__in=before
        )
    )
