"""What an OpenID Connect provider says of somebody, in the ID token and at `userinfo`, made one.

Claims that belong together come from one of the two: a mixture would say what neither of them says,
as that an address is verified which another one stands beside. What nobody here reads is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NAMES = ("preferred_username", "name", "given_name", "family_name")


class ClaimsDisagree(Exception):
    """The two say different things of one person; a sentence says which, for the log."""


def joined(signed: Mapping[str, Any], told: Mapping[str, Any], *, groups: str) -> dict[str, Any]:
    """Give what is read of somebody: by the ID token, and by `userinfo` (empty where there is
    none) what the ID token leaves out. `groups` is the claim that holds groups.

    Raises ClaimsDisagree.
    """
    if told and told.get("sub") != signed["sub"]:
        raise ClaimsDisagree("userinfo is about somebody else")
    email, verified = _address(signed, told)
    said: dict[str, Any] = {"sub": signed["sub"], "email": email, "email_verified": verified}
    for source in (told, signed):  # what was signed wins
        said |= {name: source[name] for name in NAMES if isinstance(source.get(name), str)}
    # a claim of groups that operators named like one of these cannot say who somebody is
    return {groups: signed[groups] if groups in signed else told.get(groups), **said}


def _address(signed: Mapping[str, Any], told: Mapping[str, Any]) -> tuple[str, Any]:
    """The mail address and whether it is verified, as one of the two says both."""
    pairs = [
        (source["email"], source.get("email_verified"))
        for source in (signed, told)
        if isinstance(source.get("email"), str) and source["email"]
    ]
    if len({email.lower() for email, _ in pairs}) > 1:
        raise ClaimsDisagree("the ID token and userinfo name different mail addresses")
    stated = [pair for pair in pairs if pair[1] is not None]
    if len({str(verified).lower() for _, verified in stated}) > 1:  # some say "true" for true
        raise ClaimsDisagree("the ID token and userinfo disagree whether the address is verified")
    return (stated or pairs or [("", None)])[0]
