"""Making and changing the places where people, teams and systems are reached."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, Literal

from django.contrib.auth.models import Group
from django.db import transaction

from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.models import Thread
from hitl.channels import registry
from hitl.models import ChatAccount
from hitl.models.outbound import (
    FOR_ENDPOINTS,
    ORDER_ENDS,
    Channel,
    Delivery,
    Endpoint,
    Occasion,
    channel_choices,
)
from hitl.outbound import addresses, chat, recipients, signatures
from runs import keyed
from runs.models import Template
from runs.workflows.refusals import FieldRefused, in_json

ROTATION = dt.timedelta(hours=24)
"""How long the secret before is signed with too."""
MOST = 20
"""Endpoints of one person, team or thread."""
TESTS_APART = dt.timedelta(seconds=10)


class EndpointInvalid(FieldRefused):
    """The endpoint cannot be kept as it is given.

    `field` names what is wrong; the message never repeats a secret.
    """

    code = "endpoint_invalid"


class NotYourEndpoint(Exception):
    """This person may not make or change such an endpoint."""

    code = "forbidden"


Scope = Literal["me", "team", "everybody"]


def make(
    by: User,
    *,
    channel: str,
    target: str,
    name: str = "",
    scope: Scope = "me",
    team: Group | None = None,
    occasions: Sequence[str] = (),
    templates: Sequence[str] = (),
) -> tuple[Endpoint, str]:
    """A new endpoint, and for a webhook its secret, which is shown this once.

    Raises EndpointInvalid and NotYours.
    """
    owner: dict[str, Any] = (
        {"owner": by} if scope == "me" else {"team": _team_for(by, team)} if scope == "team" else {}
    )
    if scope == "everybody" and not by.is_superuser:
        raise NotYourEndpoint("Only a superuser makes an endpoint that is told of everything.")
    if scope == "me" and channel == Channel.EMAIL:
        return _mail_of_ends(by, occasions, templates), ""
    if scope == "me" and registry.find_posting(channel) is not None:
        _check_own(by, channel, target.strip())
    return _make(channel, target, name, occasions, templates, **owner)


def _mail_of_ends(by: User, occasions: Sequence[str], templates: Sequence[str]) -> Endpoint:
    """A person's own mail, which is about questions anyway, told of the ends of their orders too.

    Raises EndpointInvalid.
    """
    if not occasions or {*occasions} - {*ORDER_ENDS}:
        raise EndpointInvalid(
            "channel",
            "Your mail goes to the address of your account; switch it on or off instead. What may "
            f"be chosen for it is how orders of yours end: {', '.join(ORDER_ENDS)}.",
        )
    _check_templates(templates)
    chosen = {"occasions": list(occasions), "templates": list(templates)}
    mail = Channel.EMAIL
    return Endpoint.objects.update_or_create(owner=by, channel=mail, defaults=chosen)[0]


def tell_of_questions_alone(user: User) -> None:
    """Have a person's own mail told of no order's end any more."""
    mine = Endpoint.objects.filter(owner=user, channel=Channel.EMAIL)
    mine.update(occasions=[], templates=[])


def own_mail(user: User) -> Endpoint | None:
    """What a person chose for their own mail; None where they chose nothing."""
    return Endpoint.objects.filter(owner=user, channel=Channel.EMAIL).first()


def _check_own(by: User, channel: str, account: str) -> None:
    """Raise EndpointInvalid for a place in a chat that is not this person's alone: in the company's
    name nobody has others written to.
    """
    if not ChatAccount.objects.filter(user=by, service=channel, account=account).exists():
        raise EndpointInvalid(
            "target",
            "Write the id of your own account there, once it is connected here (Menu > "
            "Notifications). Other places are for teams.",
        )


def register_callback(
    thread: Thread, url: str, *, secret: str = "", name: str = "callback"
) -> tuple[Endpoint, str]:
    """Have a system told, signed, of what happens to the questions of one thread; with the answers'
    data, unlike other webhooks.

    Call inside or outside a transaction. The same thread and URL again is the same endpoint, which
    then signs with the secret given last.

    Raises EndpointInvalid.
    """
    if (known := _known(thread, url)) is not None:
        return known, _set_secret(known, secret) if secret else known.secrets[0]["secret"]
    return _make(Channel.WEBHOOK, url, name, [], [], secret=secret, thread=thread)


def _known(thread: Thread, url: str) -> Endpoint | None:
    """The webhook of a thread that leads to this URL, which is encrypted in its row."""
    webhooks = Endpoint.objects.filter(thread=thread, channel=Channel.WEBHOOK)
    return next((webhook for webhook in webhooks if webhook.target == url), None)


ENDS = (Occasion.ANSWERED, Occasion.CANCELLED, Occasion.EXPIRED)


def keep_callback(thread: Thread, url: str, *, secret: str) -> None:
    """Have an engine told what became of the questions of its thread.

    Call inside a transaction: the address is checked when it is sent to.

    Raises EndpointInvalid for a secret that is none.
    """
    if (known := _known(thread, url)) is not None:
        _set_secret(known, secret) if secret else None
        return
    kept = [{"secret": _checked(secret), "until": None}]
    Endpoint.objects.create(
        channel=Channel.WEBHOOK,
        target=url,
        name="callback",
        occasions=list(ENDS),
        secrets=kept,
        thread=thread,
    )


def _make(
    channel: str,
    target: str,
    name: str,
    occasions: Sequence[str],
    templates: Sequence[str],
    *,
    secret: str = "",
    **owner: Any,
) -> tuple[Endpoint, str]:
    target, name = target.strip(), name.strip()[:80]
    _check(channel, target, occasions)
    _check_templates(templates)
    if owner and Endpoint.objects.filter(**owner).count() >= MOST:
        raise EndpointInvalid("target", f"There are {MOST} already; remove one first.")
    secret = _checked(secret) if channel == Channel.WEBHOOK else ""
    kept = [{"secret": secret, "until": None}] if secret else []
    named = name or (chat.service_of(target) if channel == Channel.APPRISE else "")
    with transaction.atomic():
        endpoint = Endpoint.objects.create(
            channel=channel,
            target=target,
            name=named,
            occasions=list(occasions),
            templates=list(templates),
            secrets=kept,
            **owner,
        )
        keyed.made(endpoint.shown_id)
    return endpoint, secret


def _check(channel: str, target: str, occasions: Sequence[str]) -> None:
    known = [name for name, _ in channel_choices()]
    if channel not in known:
        raise EndpointInvalid("channel", f"Choose one of {', '.join(known)}.")
    unknown = set(occasions) - set(dict(FOR_ENDPOINTS))
    if unknown:
        raise EndpointInvalid(
            "occasions", f"There is no occasion {in_json(sorted(unknown)[0], 40)}."
        )
    try:
        match channel:
            case Channel.WEBHOOK:
                addresses.check(target)
            case Channel.APPRISE:
                chat.check(target)
            case Channel.EMAIL:
                if (wrong := recipients.why_no_address(target)) is not None:
                    raise EndpointInvalid("target", wrong)
            case _:
                _check_place(channel, target)
    except addresses.AddressRefused as error:
        raise EndpointInvalid("target", str(error)) from error
    except addresses.CannotReach as error:
        raise EndpointInvalid("target", f"{error} Look at the address again.") from error


def _check_templates(templates: Sequence[str]) -> None:
    known = set(Template.objects.filter(slug__in=templates).values_list("slug", flat=True))
    if unknown := sorted({*templates} - known):
        raise EndpointInvalid("templates", f"There is no template {unknown[0][:80]!r}.")


def _check_place(channel: str, target: str) -> None:
    service = registry.find_posting(channel)
    if service is None or not service.in_use():
        label = service.label if service else channel
        raise EndpointInvalid("channel", f"{label} is not set up on this server.")
    if not service.places.fullmatch(target):
        raise EndpointInvalid("target", f"Write the id of a place, such as {service.example}.")


def _checked(secret: str) -> str:
    try:
        signatures.key_of(secret or (secret := signatures.new_secret()))
    except signatures.BadSecret as error:
        raise EndpointInvalid("secret", str(error)) from error
    return secret


def _team_for(by: User, team: Group | None) -> Group:
    """A team that there is not, and one of others, are the same to who asks."""
    mine = (
        team is not None
        and by.has_perm("hitl.add_endpoint")
        and by.groups.filter(pk=team.pk).exists()
    )
    if not by.is_superuser and not mine:
        raise NotYourEndpoint(
            "Endpoints of a team are made by its members who hold the right “Can add endpoint”."
        )
    if team is None:
        raise EndpointInvalid("team", "There is no such team.")
    return team


def rotate_secret(endpoint: Endpoint, *, given: str = "") -> str:
    """A new secret, signed with from now on; the one before stays valid for a day, so that the
    receiver can change over.
    """
    if endpoint.channel != Channel.WEBHOOK:
        raise EndpointInvalid("channel", "Only a webhook has a secret.")
    return _set_secret(endpoint, given)


@transaction.atomic
def _set_secret(endpoint: Endpoint, given: str) -> str:
    secret = _checked(given)
    keyed.made(endpoint.shown_id)
    locked = Endpoint.objects.filter(pk=endpoint.pk)
    # two that rotate at once come one after the other
    locked.update(why_disabled=endpoint.why_disabled)
    kept = locked.get().secrets
    until = (clock.now() + ROTATION).isoformat()
    older = [
        {**entry, "until": entry["until"] or until} for entry in kept if entry["secret"] != secret
    ][:2]
    changed = locked.get()
    changed.secrets = [{"secret": secret, "until": None}, *older]
    changed.save(update_fields=["secrets"])
    return secret


def switch(endpoint: Endpoint, *, on: bool) -> None:
    endpoint.enabled, endpoint.why_disabled = on, "" if on else "Switched off."
    endpoint.save(update_fields=["enabled", "why_disabled"])


def switch_mail(user: User, *, on: bool) -> None:
    """Whether a person's mail goes out at all."""
    Endpoint.objects.update_or_create(
        owner=user,
        channel=Channel.EMAIL,
        defaults={"enabled": on, "why_disabled": "" if on else "Switched off."},
    )


def mail_is_on(user: User) -> bool:
    return not Endpoint.objects.filter(owner=user, channel=Channel.EMAIL, enabled=False).exists()


def send_test(by: User, endpoint: Endpoint | None) -> Delivery | None:
    """Queue a test message to an endpoint, or to the person's own mail; None where one was sent in
    the last ten seconds.
    """
    place = f"end:{endpoint.pk.hex}" if endpoint is not None else f"user:{by.pk}"
    now = clock.now()
    if Delivery.objects.filter(
        occasion=Occasion.TEST, place=place, made_at__gt=now - TESTS_APART
    ).exists():
        return None
    channel = endpoint.channel if endpoint is not None else Channel.EMAIL
    with transaction.atomic():
        delivery = Delivery.objects.create(
            occasion=Occasion.TEST,
            channel=channel,
            place=place,
            recipient=by,
            endpoint=endpoint,
            next_at=now,
            made_at=now,
        )
        keyed.made(delivery.shown_id)
    return delivery
