"""Ask people to prove who they are, just before they change who may log in to their account."""

from __future__ import annotations

import time
from typing import cast

from allauth.account.app_settings import REAUTHENTICATION_TIMEOUT
from allauth.account.internal.flows.login import get_authentication_records
from allauth.mfa.utils import is_mfa_enabled
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode

from checkpoints.database.people import User
from project.identity.second_factors import MAIN


def proven(request: HttpRequest) -> bool:
    """Whether the person has just proven who they are: by their second factor, where they have one;
    else by their password, or, where they have neither, by a login just now.
    """
    user, now = cast(User, request.user), time.time()
    records = get_authentication_records(request, user)
    fresh = [record for record in records if now - record["at"] < REAUTHENTICATION_TIMEOUT]
    needed = _needed(user)
    return any(
        not needed or (record["method"] == needed and record.get("reauthenticated"))
        for record in fresh
    )


def to_prove(request: HttpRequest, *, back: str) -> HttpResponse | None:
    """Send a person who has not proven it to the page for that, and then to the page named `back`;
    None where they have neither a second factor nor a password, so there is no page for it.
    """
    pages = {"mfa": "mfa_reauthenticate", "password": "account_reauthenticate"}
    needed = _needed(cast(User, request.user))
    if not needed:
        return None
    return redirect(f"{reverse(pages[needed])}?{urlencode({'next': reverse(back)})}")


def _needed(user: User) -> str:
    if is_mfa_enabled(user, MAIN):
        return "mfa"
    return "password" if user.has_usable_password() else ""
