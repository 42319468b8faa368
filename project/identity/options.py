"""What is set of allauth."""

from __future__ import annotations

from typing import Any


def options(*, https: bool) -> dict[str, Any]:
    return {
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
        # browsers take passkeys without TLS from localhost alone
        "MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN": not https,
    }
