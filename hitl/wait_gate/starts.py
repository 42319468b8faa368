"""Signed messages that start a work order each: made by people, and taken from outside.

A message is known by its `webhook-id`. The order, the row that says which message started it, and
the key that answers the message when it is sent again are one transaction, so a message starts at
most one order, however often and long after it is sent again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction
from django.utils.translation import gettext

from checkpoints import ids
from checkpoints.database.people import User
from checkpoints.state import codec, redaction
from hitl.models import InboundSource, InboundStart, StartDelivery
from hitl.outbound.signatures import new_secret
from runs import definitions, keyed, limits, services
from runs.definitions import rights
from runs.models import WorkOrder
from runs.workflows.base import pointers
from runs.workflows.refusals import FieldRefused

ADD = "hitl.add_inboundstart"
MOST = 50
"""Inbound starts of one person."""
FIELDS = 50
"""Fields that one maps."""
KEPT = 200
"""Refused messages that one lists, the latest."""
REQUEST = 20_000

logger = logging.getLogger(__name__)


class StartInvalid(FieldRefused):
    """The inbound start cannot be kept as it is given."""

    code = "start_invalid"


class MayNotStart(Exception):
    """This person may not make inbound starts. Nothing was made."""

    code = "may_not_add_inbound_start"


MAY_NOT = (
    "You may not let messages from outside start work, so nothing was made. An operator can give "
    "you the right “Can add inbound start”."
)


def make(
    by: User, *, name: str, template: str, team: Group | None = None, **values: Any
) -> tuple[InboundStart, str]:
    """Keep a new inbound start that orders in this person's name, and give its secret, which is
    shown this once.

    Args:
        values: `title`, `request`, `request_pointer`, `input`, `mapping`, `repository_url`,
            `priority`.

    Raises:
        MayNotStart, StartInvalid, definitions.TemplateNotFound, rights.NotPermitted,
            services.InputInvalid.
    """
    if not by.has_perm(ADD):
        raise MayNotStart(MAY_NOT)
    chosen = definitions.current(template)
    rights.check_order(chosen.slug, by)
    _check(values)
    services.check_priority(values.get("priority", 0), by)
    if team is not None and not by.groups.filter(pk=team.pk).exists():
        raise StartInvalid("team", gettext("You are in no team of this name."))
    secret = new_secret()
    start = InboundStart(template=chosen.slug, team=team, for_team=team is not None, **values)
    taken = gettext("Another source has this name. Choose another one.")
    with transaction.atomic(durable=True):
        User.objects.select_for_update(no_key=True).get(pk=by.pk)  # counts one after the other
        if InboundStart.objects.filter(source__user=by).count() >= MOST:
            raise StartInvalid(
                "name",
                gettext("You have %(most)s, and may have no more. Remove one first.")
                % {"most": MOST},
            )
        try:
            with transaction.atomic():
                source = InboundSource.objects.create(name=name, user=by, secrets=[secret])
        except IntegrityError as error:  # of two people at once, too
            raise StartInvalid("name", taken) from error
        keyed.made(start.shown_id)
        start.source = source
        start.save(force_insert=True)
    return start, secret


def _check(values: Mapping[str, Any]) -> None:
    mapping, constant = values.get("mapping", {}), values.get("input", {})
    if len(mapping) > FIELDS or not all(
        isinstance(pointer, str) and pointers.is_pointer(pointer) for pointer in mapping.values()
    ):
        raise StartInvalid(
            "mapping",
            gettext(
                "Up to %(fields)s fields, each with a JSON pointer into the message, such as "
                "/data/id."
            )
            % {"fields": FIELDS},
        )
    pointer = values.get("request_pointer", "")
    if pointer and not pointers.is_pointer(pointer):
        raise StartInvalid("request_pointer", gettext("A JSON pointer, such as /data/text."))
    if redaction.redact(constant) != constant:
        raise StartInvalid(
            "input", gettext("A field is named like a secret, and no input keeps one.")
        )
    if len(codec.encode(constant)) > limits.START_BYTES:
        raise StartInvalid(
            "input",
            gettext("Up to %(bytes)s bytes.") % {"bytes": f"{limits.START_BYTES:,}"},
        )


def rotate_secret(start: InboundStart) -> str:
    """A further secret, shown this once; the one before signs too until the next change."""
    secret = new_secret()
    with transaction.atomic(durable=True):  # of two at once both secrets sign
        source = InboundSource.objects.select_for_update(no_key=True).get(pk=start.source_id)
        source.secrets = [secret, *source.secrets][:2]
        source.save(update_fields=["secrets"])
    start.source = source
    return secret


def switch(start: InboundStart, *, on: bool) -> None:
    """Let it take messages, or refuse them all as if they were not signed."""
    start.source.active = on
    start.source.save(update_fields=["active"])


def remove(start: InboundStart) -> None:
    """Remove it with its source and its list of messages; its orders stay."""
    with transaction.atomic(durable=True):
        keyed.made(start.shown_id)
        start.source.delete()


@dataclass(frozen=True)
class DeliveryClaim:
    """Makes an order a message's own, in the transaction that makes the order."""

    start: InboundStart
    delivery_id: str

    def make(self, shown_id: str) -> None:
        StartDelivery.objects.create(
            start=self.start,
            delivery_id=self.delivery_id,
            started=True,
            order_id=ids.parse(WorkOrder.PREFIX, shown_id),
        )


def take(start: InboundStart, delivery_id: str, message: Any) -> tuple[StartDelivery, bool]:
    """Start the order of a message; gives the message's row, and whether it started it just now.

    Raises what the order is refused with; the row of the refusal is written by `refuse`.
    """
    before = _started(start, delivery_id)
    if before is not None:
        return before, False
    by = start.source.user
    if not by.has_perm(ADD):
        raise rights.Forbidden(
            MayNotStart.code,
            "The source's user may not let messages from outside start work any more. Nothing was "
            "begun.",
        )
    if (start.for_team and start.team is None) or (
        start.team is not None and not by.groups.filter(pk=start.team.pk).exists()
    ):
        raise rights.Forbidden(
            "team_not_allowed",
            "The orders were for a team that the source's user is not in any more. Nothing was "
            "begun.",
        )
    try:
        with keyed.alongside(DeliveryClaim(start, delivery_id)):
            services.submit(
                start.template,
                by=by,
                title=start.title,
                request=_request(start, message),
                input=_input(start, message),
                repository_url=start.repository_url,
                team=start.team,
                priority=start.priority,
            )
    except IntegrityError:  # start_delivery_once: the same message at the same moment
        before = _started(start, delivery_id)
        if before is None:
            raise
        return before, False
    made = _started(start, delivery_id)
    assert made is not None  # written with the order
    return made, True


def _started(start: InboundStart, delivery_id: str) -> StartDelivery | None:
    return start.deliveries.filter(delivery_id=delivery_id, started=True).first()


def _input(start: InboundStart, message: Any) -> dict[str, Any]:
    """The fields that are always the same, and those of the message that are there."""
    found = {field: pointers.at(message, pointer) for field, pointer in start.mapping.items()}
    return {**start.input, **{name: value for name, value in found.items() if value is not None}}


def _request(start: InboundStart, message: Any) -> str:
    value = pointers.at(message, start.request_pointer)
    if value is None:
        return str(start.request)
    return (value if isinstance(value, str) else codec.encode(value))[:REQUEST]


def refuse(start: InboundStart, delivery_id: str, code: str, why: str) -> None:
    """Note why a message started nothing, among the latest KEPT."""
    StartDelivery.objects.create(
        start=start, delivery_id=delivery_id, code=code[:64], why=codec.readable(why)[:500]
    )
    refused = start.deliveries.filter(started=False).order_by("-id")
    oldest = refused.values_list("pk", flat=True)[KEPT : KEPT + 1]
    for pk in oldest:
        start.deliveries.filter(started=False, pk__lte=pk).delete()
