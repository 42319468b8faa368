"""What a SAML identity provider says of somebody: python3-saml's reading, made strict.

python3-saml takes an assertion that names no audience, and believes the outer, unsigned part when
it says which request it answers. Here both stand in the signed assertion, or it does not hold.

This module is imported where SAML is used: its library is optional (requirements-saml.txt).
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import xmlsec
from django.conf import settings
from django.urls import reverse
from onelogin.saml2.auth import OneLogin_Saml2_Auth
from onelogin.saml2.authn_request import OneLogin_Saml2_Authn_Request
from onelogin.saml2.constants import OneLogin_Saml2_Constants as Names
from onelogin.saml2.errors import OneLogin_Saml2_Error, OneLogin_Saml2_ValidationError
from onelogin.saml2.response import OneLogin_Saml2_Response
from onelogin.saml2.settings import OneLogin_Saml2_Settings

from hitl.identity.saml import REDIRECT, IdentityProvider, Pair, PairUnfit, own_pair
from hitl.outbound.links import absolute

CONFIRMATION = "/saml:Subject/saml:SubjectConfirmation/saml:SubjectConfirmationData"


class AssertionRefused(Exception):
    """What the provider sent does not hold; the sentence is for the log."""


class Assertion(OneLogin_Saml2_Response):  # type: ignore[misc]  # the library has no types
    """A response that holds one signed assertion about one person."""

    def transient(self) -> bool:
        """Whether the NameID is another one at each login."""
        return bool(self.get_nameid_format() == Names.NAMEID_TRANSIENT)

    def answers(self) -> str:
        """The id of the request of ours that the assertion answers, as it was signed; "" for
        none.
        """
        found = {node.get("InResponseTo") for node in self._query_assertion(CONFIRMATION)}
        return str(found.pop() or "") if len(found) == 1 else ""


def entity_id() -> str:
    """What we are called at the provider: the address of our metadata."""
    return absolute(reverse("saml_metadata"))


def login_at(provider: IdentityProvider) -> tuple[str, str]:
    """Where to send a browser, and the id of the request that it takes along. Raises PairUnfit."""
    known = _settings(provider)
    auth = OneLogin_Saml2_Auth(_request(), old_settings=known)
    asked = OneLogin_Saml2_Authn_Request(known)
    # no RelayState: where a login leads to stays here; and of an empty one the two sides of a
    # signature think differently
    words = {"SAMLRequest": asked.get_request()}
    if known.get_sp_key():
        auth.add_request_signature(words)
    return auth.redirect_to(provider.login_url, words), asked.get_id()


def verified(provider: IdentityProvider, raw: str) -> Assertion:
    """What a browser brought as SAMLResponse, where the provider signed it for us just now.

    Raises AssertionRefused, PairUnfit.
    """
    try:
        assertion = Assertion(_settings(provider), raw)
        assertion.is_valid(_request(), raise_exceptions=True)
        if entity_id() not in assertion.get_audiences():
            raise AssertionRefused("It does not say that it is for us.")
        if not assertion.answers():
            raise AssertionRefused("Nobody here asked for it, or it does not say so signed.")
    except PairUnfit:  # a ValueError, and no fault of what was brought
        raise
    except xmlsec.Error as error:  # the library lets it through
        raise AssertionRefused("It cannot be decrypted by the key of ours.") from error
    except (OneLogin_Saml2_Error, OneLogin_Saml2_ValidationError) as error:
        raise AssertionRefused(str(error)) from error
    except (ValueError, SyntaxError, TypeError, AttributeError) as error:  # no XML, or none of SAML
        raise AssertionRefused(f"It cannot be read: {error}") from error
    return assertion


def metadata() -> bytes:
    """What operators give to the provider. Raises PairUnfit."""
    said = _options()
    # the certificate for encryption stands in it, too; assertions may come without
    said["security"]["wantAssertionsEncrypted"] = "privateKey" in said["sp"]
    # the library would say that it ends in two days: a provider into which it was pasted would
    # refuse people from then on
    said["security"] |= {"metadataValidUntil": "", "metadataCacheDuration": ""}
    made = OneLogin_Saml2_Settings(said, sp_validation_only=True).get_sp_metadata()
    return made if isinstance(made, bytes) else str(made).encode()


def _settings(provider: IdentityProvider) -> OneLogin_Saml2_Settings:
    idp = {
        "entityId": provider.issuer,
        "singleSignOnService": {"url": provider.login_url, "binding": REDIRECT},
        "x509certMulti": {"signing": list(provider.certificates)},
    }
    return OneLogin_Saml2_Settings({**_options(), "idp": idp})


def _options() -> dict[str, Any]:
    pair = _pair()
    return {
        "strict": True,
        "sp": {
            "entityId": entity_id(),
            "assertionConsumerService": {
                "url": absolute(reverse("saml_back")),
                "binding": Names.BINDING_HTTP_POST,
            },
            **({"x509cert": pair.certificate, "privateKey": pair.key} if pair else {}),
        },
        "security": {
            "authnRequestsSigned": pair is not None,
            "wantAssertionsSigned": True,
            "rejectDeprecatedAlgorithm": True,  # SHA-1
            "requestedAuthnContext": False,  # how people prove themselves is the provider's matter
            "allowRepeatAttributeName": True,
            "wantAttributeStatement": False,
            "allowSingleLabelDomains": True,
        },
    }


def _pair() -> Pair | None:
    paths = settings.WAYSTATION_SAML_KEY, settings.WAYSTATION_SAML_CERTIFICATE
    return own_pair(*paths) if all(paths) else None


def _request() -> dict[str, Any]:
    """The request as operators named this server, not as it came."""
    address = urlsplit(absolute(reverse("saml_back")))
    return {
        "https": "on" if address.scheme == "https" else "off",
        "http_host": address.netloc,
        "script_name": address.path,
        "get_data": {},
        "post_data": {},
    }
