"""Wrong passwords: counted in rows, so by all processes together, and judged before a password is
hashed (django-axes).

Three limits (`runs.limits`), of which the strictest holds: for one account from one address; for
one address, whatever the account; and, much higher, for one account from anywhere. The last one
never binds an address that the account has logged in from before, so nobody can lock a person out
of their own office by guessing elsewhere.
"""

from __future__ import annotations

import datetime as dt
import logging
from typing import Any

from axes.handlers.database import AxesDatabaseHandler
from axes.models import AccessAttempt, AccessLog
from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import Group, Permission
from django.db.models import Q, QuerySet, Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from checkpoints.database import clock
from checkpoints.database.people import User
from checkpoints.store.prepared_queries import Prepared
from hitl.http import clients
from hitl.identity import keys
from hitl.models import is_service

logger = logging.getLogger(__name__)
_person = Prepared(
    lambda key: User.objects.select_related("service_account").annotate(**keys.READ).filter(pk=key),
    int,
)
_permissions = Prepared(
    lambda key: Permission.objects.filter(
        Q(pk__in=User.user_permissions.through.objects.filter(user=key).values("permission"))
        | Q(
            pk__in=Group.permissions.through.objects.filter(
                group__in=User.groups.through.objects.filter(user=key).values("group")
            ).values("permission")
        )
    ).select_related("content_type"),
    int,
)
KNOWN_FOR = dt.timedelta(days=180)
"""How long an address counts as one that an account logs in from."""


def waits(request: HttpRequest | None = None) -> dt.timedelta:
    """How long failures count, and so how long whoever has too many waits."""
    return dt.timedelta(minutes=settings.WAYSTATION_LOGIN_MINUTES)


def may_use_password(user: User) -> bool:
    """Whether an account may log in by a password, and so be sent a link for a new one."""
    named = user.get_username() in settings.WAYSTATION_BREAK_GLASS
    return (named or settings.WAYSTATION_PASSWORDS == "everyone") and not is_service(user)


class Backend(ModelBackend):
    """Django's own, by which no service account logs in, whatever its password; a session of one
    is nobody's.
    """

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **more: Any,
    ) -> User | None:
        """By a password, where this account may; a break-glass login leaves a line in the log."""
        user = super().authenticate(request, username, password, **more)
        if user is None or not may_use_password(user):
            return None
        if settings.WAYSTATION_PASSWORDS != "everyone":
            logger.warning("Break-glass: %s logged in by a password", user.get_username())
        return user

    def user_can_authenticate(self, user: Any) -> bool:
        return super().user_can_authenticate(user) and not is_service(user)

    def get_user(self, user_id: Any) -> User | None:
        user = next(iter(_person.get(int(user_id))), None)
        return user if user is not None and self.user_can_authenticate(user) else None

    def get_all_permissions(self, user_obj: Any, obj: Any = None) -> set[str]:
        """Django's own, asked in one query: the menu of every page asks."""
        usual = user_obj.is_active and not user_obj.is_anonymous and not user_obj.is_superuser
        if obj is None and usual and not hasattr(user_obj, "_perm_cache"):
            user_obj._perm_cache = {
                f"{permission.content_type.app_label}.{permission.codename}"
                for permission in _permissions.get(user_obj.pk)
            }
        return super().get_all_permissions(user_obj, obj)


class Handler(AxesDatabaseHandler):
    def get_failures(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> int:
        """Failures as a share of the limit that is nearest, in units of the first: what axes
        compares has one limit.
        """
        username, address = (
            str((credentials or {}).get("username") or ""),
            clients.address_of(request),
        )
        recent = AccessAttempt.objects.filter(attempt_time__gte=clock.now() - waits())
        first: int = settings.WAYSTATION_LOGIN_FAILURES
        shares = [
            (recent.filter(username=username, ip_address=address), first),
            (recent.filter(ip_address=address), settings.WAYSTATION_LOGIN_ADDRESS_FAILURES),
        ]
        if not AccessLog.objects.filter(
            username=username, ip_address=address, attempt_time__gte=clock.now() - KNOWN_FOR
        ).exists():
            shares.append(
                (recent.filter(username=username), settings.WAYSTATION_LOGIN_ACCOUNT_FAILURES)
            )
        return max(_count(attempts) * first // most for attempts, most in shares)

    def user_login_failed(
        self,
        sender: Any,
        credentials: dict[str, Any],
        request: HttpRequest | None = None,
        **kwargs: Any,
    ) -> None:
        """As axes does it, by the database's clock: what one host counted another one asks for, and
        cleans away.
        """
        if request is None:
            return
        # while locked out, failures do not count
        at, counted = clock.now(), not getattr(request, "axes_locked_out", False)
        request.axes_attempt_time = at  # type: ignore[attr-defined]
        super().user_login_failed(sender, credentials, request, **kwargs)
        if counted:  # a first failure is dated by its column, which asks the host
            names = {
                "username": credentials.get("username"),
                "ip_address": clients.address_of(request),
            }
            mine = AccessAttempt.objects.filter(
                **names, user_agent=getattr(request, "axes_user_agent", "")
            )
            mine.filter(failures_since_start=1).update(attempt_time=at)

    def user_logged_in(self, sender: Any, request: HttpRequest, user: User, **kwargs: Any) -> None:
        """One row per account and address says that they know each other; nothing else of a login
        is kept.
        """
        names = {"username": user.get_username(), "ip_address": clients.address_of(request)}
        now = clock.now()
        if not AccessLog.objects.filter(**names).update(attempt_time=now):
            made = AccessLog.objects.create(**names, path_info="", http_accept="", user_agent="")
            AccessLog.objects.filter(pk=made.pk).update(attempt_time=now)
            AccessLog.objects.filter(attempt_time__lt=now - KNOWN_FOR).delete()
        AccessAttempt.objects.filter(**names).delete()

    def user_logged_out(self, sender: Any, request: HttpRequest, user: Any, **kwargs: Any) -> None:
        """Nothing is kept of it."""


def _count(attempts: QuerySet[Any]) -> int:
    return attempts.aggregate(total=Sum("failures_since_start"))["total"] or 0


def locked_out(
    request: HttpRequest, response: HttpResponse | None = None, credentials: Any = None
) -> HttpResponse:
    """The page for whoever has to wait; the same for accounts that there are and that there are
    not.
    """
    shown = render(
        request,
        "registration/locked.html",
        {"minutes": settings.WAYSTATION_LOGIN_MINUTES},
        status=429,
    )
    shown["Retry-After"] = str(int(waits().total_seconds()))
    return shown
