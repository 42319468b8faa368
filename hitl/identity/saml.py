"""What a SAML identity provider says of itself: its metadata, read where operators said it is; and
our own key and certificate, by which it knows us.

Metadata is believed for where it comes from, a file here or an address by TLS: a signature on it is
not looked at.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import http.client
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from defusedxml import ElementTree
from django.utils.dateparse import parse_datetime

MOST = 20_000_000
"""Bytes: a federation's metadata holds thousands of providers."""
PROTOCOL = "urn:oasis:names:tc:SAML:2.0:protocol"
REDIRECT = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect"
NAMES = {
    "md": "urn:oasis:names:tc:SAML:2.0:metadata",
    "ds": "http://www.w3.org/2000/09/xmldsig#",
}
ATTRIBUTES = {
    "uid": ["urn:oasis:names:tc:SAML:attribute:subject-id"],
    "email": [
        "email",
        "mail",
        "urn:oid:0.9.2342.19200300.100.1.3",
        "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/emailaddress",
    ],
    "email_verified": ["email_verified"],
    "first_name": [
        "givenName",
        "firstName",
        "urn:oid:2.5.4.42",
        "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/givenname",
    ],
    "last_name": [
        "sn",
        "lastName",
        "urn:oid:2.5.4.4",
        "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/surname",
    ],
    "username": ["uid", "urn:oid:0.9.2342.19200300.100.1.1"],
}
"""Attributes of a SAML assertion by what they say, as providers call them."""


class MetadataUnfit(ValueError):
    """What was read is no metadata by which somebody can log in; a sentence says why."""


class PairUnfit(ValueError):
    """Our own key and certificate cannot be used; a sentence says why."""


@dataclass(frozen=True)
class Pair:
    """What we sign with, and decrypt by; both PEM."""

    key: str = field(repr=False)
    certificate: str
    ends_at: dt.datetime


@dataclass(frozen=True)
class IdentityProvider:
    issuer: str
    """Its entity id."""
    login_url: str
    """Where browsers are sent to, by redirect."""
    certificates: tuple[str, ...]
    """Those that sign what it says, each base64 of DER."""

    def ends_at(self) -> dt.datetime:
        """When the last of its certificates ends."""
        return max(_certificate(text).not_valid_after_utc for text in self.certificates)


def own_pair(key: str, certificate: str) -> Pair:
    """The key at one path and its certificate at the other. Raises PairUnfit."""
    texts = []
    for setting, path in (("KEY", key), ("CERTIFICATE", certificate)):
        try:
            texts.append(Path(path).read_text(encoding="ascii"))
        except (OSError, UnicodeDecodeError) as error:
            raise PairUnfit(f"WAYSTATION_SAML_{setting} cannot be read.") from error
    return _checked(*texts)


@lru_cache(maxsize=2)
def _checked(key: str, certificate: str) -> Pair:
    """A pair that fits. To check an RSA key anew for each login took longer than the login."""
    try:
        private = serialization.load_pem_private_key(key.encode(), password=None)
        public = x509.load_pem_x509_certificate(certificate.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise PairUnfit(
            "WAYSTATION_SAML_KEY or WAYSTATION_SAML_CERTIFICATE is no PEM, or the key has a "
            "password."
        ) from error
    if not isinstance(private, rsa.RSAPrivateKey):
        raise PairUnfit("WAYSTATION_SAML_KEY is no RSA key.")
    if private.public_key() != public.public_key():
        raise PairUnfit("WAYSTATION_SAML_CERTIFICATE is not that of WAYSTATION_SAML_KEY.")
    return Pair(key, certificate, public.not_valid_after_utc)


def provider(source: str, issuer: str, *, now: dt.datetime, seconds: float) -> IdentityProvider:
    """The provider of this entity id, as the metadata at a path or address has it.

    Raises OSError where it cannot be read within the time, MetadataUnfit where it does not fit.
    """
    try:
        root = ElementTree.fromstring(_bytes(source, seconds=seconds))
    except (SyntaxError, ValueError) as error:
        raise MetadataUnfit("It is no XML that can be read.") from error
    for entity in root.iter(f"{{{NAMES['md']}}}EntityDescriptor"):
        if entity.get("entityID") == issuer:
            for element in (root, entity):
                until = _moment(element.get("validUntil") or "")
                if until is not None and until <= now:
                    raise MetadataUnfit(f"It was valid until {until:%Y-%m-%d %H:%M}.")
            return _provider(entity, issuer)
    raise MetadataUnfit("It names no provider with this entity id.")


def _moment(text: str) -> dt.datetime | None:
    """A time as metadata writes it: UTC, where it names no zone; None for what is no time."""
    try:
        at = parse_datetime(text)
    except ValueError as error:  # a day that there is not
        raise MetadataUnfit("Until when it is valid cannot be read.") from error
    return at.replace(tzinfo=dt.UTC) if at is not None and at.tzinfo is None else at


def _provider(entity: Any, issuer: str) -> IdentityProvider:
    roles = [
        role
        for role in entity.findall("md:IDPSSODescriptor", NAMES)
        if PROTOCOL in (role.get("protocolSupportEnumeration") or "").split()
    ]
    if not roles:
        raise MetadataUnfit("It says of this entity id that it is no identity provider.")
    logins = [
        service.get("Location") or ""
        for service in roles[0].findall("md:SingleSignOnService", NAMES)
        if service.get("Binding") == REDIRECT
    ]
    if not logins or not logins[0].startswith(("https://", "http://")):
        raise MetadataUnfit("It has no address to log in at by redirect (HTTP-Redirect).")
    certificates = tuple(_signing(roles[0]))
    if not certificates:
        raise MetadataUnfit("It has no certificate that signs.")
    return IdentityProvider(issuer, logins[0], certificates)


def _signing(role: Any) -> Iterator[str]:
    for key in role.findall("md:KeyDescriptor", NAMES):
        if key.get("use") in (None, "signing"):
            for element in key.findall("ds:KeyInfo/ds:X509Data/ds:X509Certificate", NAMES):
                text = "".join((element.text or "").split())
                _certificate(text)
                yield text


def _certificate(text: str) -> x509.Certificate:
    try:
        return x509.load_der_x509_certificate(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError) as error:
        raise MetadataUnfit("A certificate in it cannot be read.") from error


def _bytes(source: str, *, seconds: float) -> bytes:
    if not source.startswith(("https://", "http://")):
        with Path(source).open("rb") as file:
            return file.read(MOST)
    return fetched(source, most=MOST, seconds=seconds)


def fetched(address: str, *, most: int, seconds: float) -> bytes:
    """What is at a web address that operators set. Raises OSError, also where it breaks off."""
    try:
        # the callers let through http and https alone, of the operators' own settings
        with urllib.request.urlopen(address, timeout=seconds) as answer:  # noqa: S310
            read: bytes = answer.read(most)
    except http.client.HTTPException as error:
        raise OSError(f"what came is no answer ({type(error).__name__})") from error
    return read
