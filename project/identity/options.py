"""What is set of allauth."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ImproperlyConfigured

from runs import defaults


def options(*, https: bool, secret: str) -> dict[str, Any]:
    return {
        **oidc(
            defaults.WAYSTATION_OIDC_ISSUER,
            secret=secret,
            client_id=defaults.WAYSTATION_OIDC_CLIENT_ID,
            name=defaults.WAYSTATION_OIDC_NAME,
            scopes=defaults.WAYSTATION_OIDC_SCOPES,
        ),
        "ACCOUNT_ADAPTER": "project.identity.adapters.AccountAdapter",
        "ACCOUNT_EMAIL_NOTIFICATIONS": True,
        "ACCOUNT_EMAIL_SUBJECT_PREFIX": "Waystation: ",
        "ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS": False,  # no mail to strangers
        "ACCOUNT_EMAIL_VERIFICATION": "none",
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
        # the code before counts, too, and the next one: who types takes seconds, and phones are off
        # by some (RFC 6238, 5.2)
        "MFA_TOTP_TOLERANCE": 1,
        # browsers take passkeys without TLS from localhost alone
        "MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN": not https,
    }


def oidc(
    issuer: str, *, secret: str, client_id: str, name: str, scopes: list[str]
) -> dict[str, Any]:
    """The provider; the client's secret stands nowhere else."""
    if bool(issuer) != bool(client_id and secret):
        raise ImproperlyConfigured(
            "WAYSTATION_OIDC_ISSUER, WAYSTATION_OIDC_CLIENT_ID and WAYSTATION_OIDC_CLIENT_SECRET "
            "go together: set all of them, or none."
        )
    if issuer and not issuer.startswith(("https://", "http://127.0.0.1", "http://localhost")):
        raise ImproperlyConfigured("WAYSTATION_OIDC_ISSUER begins with https://.")
    app = {
        "provider_id": "oidc",
        "name": name,
        "client_id": client_id,
        "secret": secret,
        "settings": {"server_url": issuer, "scope": scopes, "oauth_pkce_enabled": True},
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
                "APPS": [app] if issuer else [],
            }
        },
    }
