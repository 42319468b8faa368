"""Which account a login at a provider opens, where it has opened none so far."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, cast

from allauth.account.adapter import get_adapter
from allauth.socialaccount.models import SocialAccount, SocialLogin
from django.conf import settings
from django.db import IntegrityError, transaction
from django.http import HttpRequest
from django.utils.translation import gettext as _

from checkpoints.database.people import User
from hitl.identity import closed, directory
from hitl.identity.saml import ATTRIBUTES
from hitl.models import Connection, is_service
from project.identity import options
from project.identity.proofs import proven

logger = logging.getLogger(__name__)


class NotLinked(Exception):
    """There is an account with this mail address or name, and the login opens neither it nor
    another one; says what to do.
    """


def served() -> dict[str, str]:
    """The providers that people log in by, and what pages call them."""
    given = {
        options.OIDC: (settings.WAYSTATION_OIDC_ISSUER, settings.WAYSTATION_OIDC_NAME),
        options.SAML: (settings.WAYSTATION_SAML_ISSUER, settings.WAYSTATION_SAML_NAME),
    }
    return {provider: name for provider, (issuer, name) in given.items() if issuer}


def vouched(provider: str, said: Mapping[str, Any]) -> str:
    """The mail address, in lower case, for which a provider vouches by what it said of somebody; ""
    where it does not, or operators did not say that it may.

    OpenID Connect says that an address is verified. SAML has no word for it: who names that
    provider in the setting takes all of its addresses for verified, but where it says no. One with
    other letters than ASCII is vouched for by nobody: the Kelvin sign is a k in lower case.
    """
    if provider not in settings.WAYSTATION_SSO_LINK:
        return ""
    if provider == options.OIDC:
        address = str(said.get("email") or "")
        doubted = said.get("email_verified") is not True
    else:
        address = _first(said, ATTRIBUTES["email"])
        verified = said.get("email_verified") or []
        doubted = any(str(word).lower() not in ("true", "1") for word in verified)
    return "" if doubted or not address.isascii() else address.lower()


def _first(said: Mapping[str, Any], names: Sequence[str]) -> str:
    for name in names:
        if (value := said.get(name)) and isinstance(value, list):
            return str(value[0])
    return ""


def settle(request: HttpRequest, sociallogin: SocialLogin, values: Sequence[str]) -> None:
    """Give a first login the account that has its mail address, where that is safe.

    Raises NotLinked where there is such an account and it is not. Nothing is done where there is
    none: the login makes a new one.
    """
    address = str(cast(User, sociallogin.user).email or "").lower()
    people = User.objects.filter(email__iexact=address) if address else ()
    same = [user for user in people if user.email.lower() == address and not is_service(user)]
    if not same:
        return
    if len(same) > 1 or not _may_open(same[0], sociallogin, address):
        raise NotLinked(
            _(
                "There is an account here with your mail address already, and this login does not "
                "open it. Log in as before, and connect this login under your name, Password and "
                "second factors, Logins elsewhere; or ask an operator."
            )
        )
    _join(request, sociallogin, same[0], values, Connection.LINKED)


def refuse_closed(sociallogin: SocialLogin) -> None:
    """Raises NotLinked where operators switched off the account of whoever logs in: the one that
    the login opens, or any that has one of their names or addresses, here or at a provider. Else
    they would be back in a new account.
    """
    user, account = cast(User, sociallogin.user), sociallogin.account
    if sociallogin.is_existing:
        found = [] if user.is_active else [user]
    else:
        wanted = closed.names(user.get_username(), user.email)
        found = closed.named(wanted | closed.names_at(account.uid, account.extra_data))
    if found:
        called = ", ".join(person.get_username() for person in found)
        logger.warning("A login by %s was refused: switched off is %s", account.provider, called)
        raise NotLinked(
            _(
                "The account here that has your name or mail address is switched off, so this "
                "login opens none. Ask whoever runs this server."
            )
        )


def _may_open(user: User, sociallogin: SocialLogin, address: str) -> bool:
    """Whether the provider vouches for the address, and the account is nobody else's: none that
    administers or is kept for the day the provider is away, none that another person there has, and
    none whose own address nobody vouched for.
    """
    account = sociallogin.account
    if vouched(account.provider, account.extra_data) != address:
        return False
    if user.is_superuser or user.is_staff or user.get_username() in settings.WAYSTATION_BREAK_GLASS:
        return False
    return all(
        other.provider != account.provider and vouched(other.provider, other.extra_data) == address
        for other in SocialAccount.objects.filter(user=user)
    )


def connect(
    request: HttpRequest, sociallogin: SocialLogin, values: Sequence[str]
) -> tuple[str, bool]:
    """Let a login at a provider open the account of whoever is logged in and has just proven that
    it is them; gives words for them, and whether it does.
    """
    user, provider = request.user, sociallogin.account.provider
    if not isinstance(user, User) or not proven(request):
        return _("That took too long, so nothing was connected. Begin once more."), False
    if sociallogin.is_existing:
        if sociallogin.user == user:
            return _("This login opens your account already."), True
        return _("This login opens another account here, so nothing was connected."), False
    if SocialAccount.objects.filter(user=user, provider=provider).exists():
        return _("Another login there opens your account: remove that one first."), False
    try:
        _join(request, sociallogin, user, values, Connection.CONNECTED)
    except NotLinked as error:
        return str(error), False
    return _("From now on this login opens your account."), True


def _join(
    request: HttpRequest,
    sociallogin: SocialLogin,
    user: User,
    values: Sequence[str],
    how: Connection,
) -> None:
    account = sociallogin.account
    account.user = user
    try:
        with transaction.atomic():
            account.save()
            directory.bring(user, values, provider=account.provider, connection=how)
    except IntegrityError:  # another request was first
        raise NotLinked(_("This login did not hold. Begin once more.")) from None
    sociallogin.user = user
    _tell(request, user, "account_connected", account.provider)


def disconnect(request: HttpRequest, account: SocialAccount) -> None:
    """Let a login at a provider open nothing any more; the groups it gave go with it."""
    user = account.user
    with transaction.atomic():
        account.delete()
        directory.bring(user, [], provider=account.provider, connection=Connection.DISCONNECTED)
    _tell(request, user, "account_disconnected", account.provider)


def _tell(request: HttpRequest, user: User, what: str, provider: str) -> None:
    get_adapter(request).send_notification_mail(
        f"socialaccount/email/{what}", user, {"provider": served().get(provider, provider)}
    )
