"""Encryption at rest: what may hold content is kept under a key where
`WAYSTATION_ENCRYPTION_KEYS` names one. Off by default.

AES-256-GCM by `cryptography`. A sealed value is `wse1.<key id>.` and then, as bytes or (in columns
of text) in base64: salt (16), nonce (12), ciphertext with its tag. Each process draws a salt and
derives its own key from the setting's by HKDF, and a new one in good time: so random nonces are
safe for any number of rows. The column's name is authenticated along, so a value moved to another
column is no value.

Reading needs no setting but the keys: a value without the mark is plain, so rows from before and
after live together. A plain text that happens to begin with the mark is kept as
`wse1.plain.<text>`.

What is sealed `always` (a column of secrets) is never plain: where no key is configured it is
sealed with the server's own, which is derived from Django's SECRET_KEY. A new SECRET_KEY makes such
values unreadable, so they are for what is soon forgotten.

Digests stay over what is inside, so a dump still tells whether two values are the same, and whoever
can guess a *whole* value can see that the guess is right. A keyed digest would hide that, and break
what digests are for here: they are addresses of blobs, are recomputed by who holds an export, and
stay true when keys change.

No Django here: `configure` is called once at the start.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

MARK = "wse1."
PLAIN = "plain"
"""As the newest of the keys: new values are kept plain, older ones can be read."""
SALT, NONCE = 16, 12
PER_SALT = 2**24
"""Values of one process under one derived key; with random nonces 2**32 are the limit."""
KEY_ID = 8
HEADER = len(MARK) + KEY_ID + 1
"""Characters before the sealed content: the same for every key."""


class KeyMissing(Exception):
    """A value is sealed with a key that this process does not have. `key_id` names it."""

    code = "encryption_key_missing"

    def __init__(self, key_id: str) -> None:
        super().__init__(
            f"This is encrypted with the key {key_id}, which WAYSTATION_ENCRYPTION_KEYS of "
            "this server does not hold. Nothing was changed."
        )
        self.key_id = key_id


class SealBroken(Exception):
    """A sealed value is not what was written."""

    code = "seal_broken"

    def __init__(self) -> None:
        super().__init__("This cannot be decrypted: its stored bytes were changed.")


class BadKey(ValueError):
    """No key; the message does not repeat it."""


@dataclass(frozen=True, slots=True)
class Key:
    """An encryption key.

    Its id, the first of its hash's characters, is no secret: errors and `rotate_keys` name keys by
    it.
    """

    id: str
    secret: bytes = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> Key:
        """32 random bytes in URL-safe base64; raises BadKey."""
        try:
            secret = base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
        except (ValueError, binascii.Error):
            secret = b""
        if len(secret) != 32:
            raise BadKey(
                "a key is 32 random bytes in URL-safe base64; `manage.py rotate_keys --new` "
                "makes one"
            )
        return cls(hashlib.sha256(b"waystation key id:" + secret).hexdigest()[:KEY_ID], secret)


@dataclass(frozen=True, slots=True)
class Ring:
    """The keys of this process."""

    newest: Key | None
    """What is written with; None for plain."""
    known: Mapping[str, Key]
    own: Key | None = None
    """What is written with that is sealed always, where `newest` is none."""


def ring_of(keys: Sequence[str], *, own: Key | None = None) -> Ring:
    """Keys as the setting has them, and the server's own one. Raises BadKey."""
    known = [None if text == PLAIN else Key.parse(text) for text in keys]
    if None in known[1:]:
        raise BadKey(f"{PLAIN!r} may stand first only: it says that new values are kept plain")
    return Ring(
        known[0] if known else None, {key.id: key for key in (*known, own) if key is not None}, own
    )


def _derived(secret: str) -> Key:
    bits = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"waystation own key").derive(
        secret.encode()
    )
    return Key.parse(base64.urlsafe_b64encode(bits).decode())


def new_key() -> str:
    return base64.urlsafe_b64encode(os.urandom(32)).decode()


_ring = Ring(None, {})


def configure(keys: Sequence[str], *, secret: str = "") -> None:
    """From now on write with the first of these keys and read with any. Raises BadKey.

    Args:
        secret: of the server; its own key comes from it. Without one the own key stays as it is.
    """
    global _ring
    _ring = ring_of(keys, own=_derived(secret) if secret else _ring.own)


def newest(*, always: bool = False) -> Key | None:
    """The key that values are written with; None where they are kept plain."""
    return _ring.newest or (_ring.own if always else None)


@lru_cache(maxsize=4096)
def _cipher(secret: bytes, salt: bytes) -> AESGCM:
    return AESGCM(
        HKDF(algorithm=SHA256(), length=32, salt=salt, info=b"waystation at rest").derive(secret)
    )


_salt = os.urandom(SALT)
_written = itertools.count(1)


def _fresh_salt() -> bytes:
    global _salt, _written
    if next(_written) > PER_SALT:
        _salt, _written = os.urandom(SALT), itertools.count(1)
    return _salt


def _draw_salt() -> None:
    global _salt
    _salt = os.urandom(SALT)


os.register_at_fork(after_in_child=_draw_salt)


def seal(plain: bytes, about: str, *, always: bool = False) -> bytes:
    """What is stored of bytes in the column `about` ("table.column"): sealed with the newest key,
    or as they are where there is none.
    """
    key = newest(always=always)
    if key is None:
        return (
            f"{MARK}{PLAIN:_<{KEY_ID}}.".encode() + plain
            if plain.startswith(MARK.encode())
            else plain
        )
    return f"{MARK}{key.id}.".encode() + _sealed(key, plain, about)


def seal_text(plain: str, about: str) -> str:
    """As `seal`, for a column of text.

    Nothing stays nothing: that there is no text is no content.
    """
    key = _ring.newest
    if key is None:
        return f"{MARK}{PLAIN:_<{KEY_ID}}.{plain}" if plain.startswith(MARK) else plain
    return (
        f"{MARK}{key.id}.{base64.urlsafe_b64encode(_sealed(key, plain.encode(), about)).decode()}"
        if plain
        else plain
    )


def _sealed(key: Key, plain: bytes, about: str) -> bytes:
    salt, nonce = _fresh_salt(), os.urandom(NONCE)
    return salt + nonce + _cipher(key.secret, salt).encrypt(nonce, plain, about.encode())


def opened(stored: bytes, about: str) -> bytes:
    """What `seal` was given; raises KeyMissing, SealBroken."""
    if not stored.startswith(MARK.encode()):
        return stored
    key_id = stored[len(MARK) : HEADER - 1].decode("ascii", "replace")
    return stored[HEADER:] if _is_plain(key_id) else _opened(key_id, stored[HEADER:], about)


def opened_text(stored: str, about: str) -> str:
    """What `seal_text` was given; raises KeyMissing, SealBroken."""
    if not stored.startswith(MARK):
        return stored
    key_id = stored[len(MARK) : HEADER - 1]
    if _is_plain(key_id):
        return stored[HEADER:]
    try:
        sealed = base64.b64decode(stored[HEADER:].encode("ascii"), altchars=b"-_", validate=True)
        return _opened(key_id, sealed, about).decode()
    except ValueError as error:
        raise SealBroken from error


def _is_plain(key_id: str) -> bool:
    return key_id.rstrip("_") == PLAIN


def _opened(key_id: str, sealed: bytes, about: str) -> bytes:
    key = _ring.known.get(key_id)
    if key is None:
        raise KeyMissing(key_id)
    salt, nonce, content = sealed[:SALT], sealed[SALT : SALT + NONCE], sealed[SALT + NONCE :]
    try:
        return _cipher(key.secret, salt).decrypt(nonce, content, about.encode())
    except (InvalidTag, ValueError) as error:
        raise SealBroken from error


def current_header(*, always: bool = False) -> str | None:
    """What values under the newest key begin with; None where new ones are kept plain."""
    key = newest(always=always)
    return None if key is None else f"{MARK}{key.id}."


def key_of(stored: str | bytes) -> str:
    """The id of the key that a stored value is sealed with, `plain` for none."""
    head = (
        stored[:HEADER].decode("ascii", "replace") if isinstance(stored, bytes) else stored[:HEADER]
    )
    return head[len(MARK) : -1].rstrip("_") if head.startswith(MARK) else PLAIN


def in_use() -> bool:
    """Whether this process knows any key beside its own."""
    return bool(_ring.known.keys() - {_ring.own.id if _ring.own else ""})
