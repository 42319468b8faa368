"""Somebody without an account, known by the mail address that a link was sent to."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Outsider:
    """Whoever holds the link that was sent to an address: that is all that is known of them."""

    address: str
    """In lower case, as the question has it."""

    @property
    def key(self) -> str:
        return key_of(self.address)

    def get_username(self) -> str:
        return self.address


def key_of(address: str) -> str:
    """An address as rows name it that must find or tell it apart: itself it is sealed.

    It says nothing to who does not know the address.
    """
    return hashlib.sha256(address.lower().encode()).hexdigest()[:40]
