"""Django's settings for allauth, made from the settings of ours that people set."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ImproperlyConfigured

from hitl.identity.saml import ATTRIBUTES
from runs import defaults

OIDC, SAML = "oidc", "saml"
"""The names of our providers in rows; there is one of each kind."""
NEAR = ("http://127.0.0.1", "http://localhost")
"""Addresses on this machine, which need no TLS."""


def options(*, https: bool, secret: str) -> dict[str, Any]:
    return {
        **providers(
            defaults.WAYSTATION_OIDC_ISSUER,
            secret=secret,
            client_id=defaults.WAYSTATION_OIDC_CLIENT_ID,
            name=defaults.WAYSTATION_OIDC_NAME,
            scopes=defaults.WAYSTATION_OIDC_SCOPES,
            saml_issuer=defaults.WAYSTATION_SAML_ISSUER,
            saml_metadata=defaults.WAYSTATION_SAML_METADATA,
            saml_name=defaults.WAYSTATION_SAML_NAME,
            saml_pair=(defaults.WAYSTATION_SAML_KEY, defaults.WAYSTATION_SAML_CERTIFICATE),
        ),
        "ACCOUNT_ADAPTER": "project.identity.adapters.AccountAdapter",
        "ACCOUNT_EMAIL_NOTIFICATIONS": True,
        "ACCOUNT_EMAIL_SUBJECT_PREFIX": "Waystation: ",
        "ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS": False,  # no mail to strangers
        "ACCOUNT_EMAIL_VERIFICATION": "none",
        "ACCOUNT_FORMS": {
            "reset_password": "project.identity.passwords.ForgottenForm",
            "user_token": "project.identity.passwords.LinkForm",
        },
        "ACCOUNT_LOGOUT_ON_PASSWORD_CHANGE": False,
        "ACCOUNT_RATE_LIMITS": {"login": None},  # those of `hitl.http.logins`
        "MFA_ADAPTER": "project.identity.adapters.FactorAdapter",
        "MFA_ALLOW_UNVERIFIED_EMAIL": True,  # addresses are given by operators
        "MFA_FORMS": {
            "authenticate": "project.identity.second_factors.LoginForm",
            "authenticate_webauthn": "project.identity.second_factors.LoginKeyForm",
        },
        "MFA_SUPPORTED_TYPES": ["totp", "webauthn", "recovery_codes"],
        "MFA_TOTP_ISSUER": "Waystation",
        # the previous code and the next one count, too: typing takes seconds, and a phone's clock
        # is off by some (RFC 6238, 5.2)
        "MFA_TOTP_TOLERANCE": 1,
        # browsers take passkeys without TLS from localhost alone
        "MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN": not https,
    }


def providers(
    issuer: str = "",
    *,
    secret: str = "",
    client_id: str = "",
    name: str = "",
    scopes: list[str] | None = None,
    saml_issuer: str = "",
    saml_metadata: str = "",
    saml_name: str = "",
    saml_pair: tuple[str, str] = ("", ""),
) -> dict[str, Any]:
    """Give the settings for one provider of each kind at most; the client's secret is kept nowhere
    else. Raises ImproperlyConfigured.
    """
    if bool(issuer) != bool(client_id and secret):
        raise ImproperlyConfigured(
            "WAYSTATION_OIDC_ISSUER, WAYSTATION_OIDC_CLIENT_ID and WAYSTATION_OIDC_CLIENT_SECRET "
            "go together: set all of them, or none."
        )
    if issuer and not issuer.startswith(("https://", *NEAR)):
        raise ImproperlyConfigured("WAYSTATION_OIDC_ISSUER begins with https://.")
    if bool(saml_issuer) != bool(saml_metadata):
        raise ImproperlyConfigured(
            "WAYSTATION_SAML_ISSUER and WAYSTATION_SAML_METADATA go together: set both, or none."
        )
    if saml_metadata and not saml_metadata.startswith(("https://", "/", *NEAR)):
        raise ImproperlyConfigured("WAYSTATION_SAML_METADATA is a path, or begins with https://.")
    if len(set(map(bool, saml_pair))) > 1:
        raise ImproperlyConfigured(
            "WAYSTATION_SAML_KEY and WAYSTATION_SAML_CERTIFICATE go together: set both, or none."
        )
    oidc = {
        "provider_id": OIDC,
        "name": name,
        "client_id": client_id,
        "secret": secret,
        "settings": {"server_url": issuer, "scope": scopes or [], "oauth_pkce_enabled": True},
    }
    saml = {
        "provider_id": SAML,
        "name": saml_name,
        "client_id": SAML,
        "settings": {"attribute_mapping": ATTRIBUTES},
    }
    return {
        "SOCIALACCOUNT_ADAPTER": "project.identity.elsewhere.ElsewhereAdapter",
        "SOCIALACCOUNT_EMAIL_REQUIRED": False,
        "SOCIALACCOUNT_EMAIL_VERIFICATION": "none",
        "SOCIALACCOUNT_LOGIN_ON_GET": True,
        "SOCIALACCOUNT_STORE_TOKENS": False,
        "SOCIALACCOUNT_PROVIDERS": {
            "openid_connect": {
                "provider_class": "project.identity.oidc.Provider",
                "APPS": [oidc] if issuer else [],
            },
            "saml": {
                "provider_class": "project.identity.saml.Provider",
                "APPS": [saml] if saml_issuer else [],
            },
        },
    }
