"""Settings, 12-factor: every value that differs between machines comes from the environment.

docs/reference/settings.md lists them. Settings that the apps themselves need have their defaults in
`runs.defaults`, so that the apps work in other projects too (docs/how-to/embedding.md).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from django.templatetags.static import static
from whitenoise.compress import Compressor

from checkpoints.database import addresses
from hitl.host import settings as host
from hitl.host.telemetry import errors, log_lines, tracing
from hitl.http import rest
from hitl.rendering import places
from project.identity.options import options as of_identity
from runs import defaults, env
from runs.defaults import *  # noqa: F403  # every other WAYSTATION_…, each with its default
from runs.defaults import (
    WAYSTATION_BODY_BYTES,
    WAYSTATION_COMMIT,
    WAYSTATION_IMPORT_BYTES,
    WAYSTATION_LEASE_SECONDS,
    WAYSTATION_ORDER_BYTES,
    WAYSTATION_OUTBOUND_SECONDS,
)  # fmt: skip

WAYSTATION_UMASK = env.umask("WAYSTATION_UMASK", "077")
"""Permissions that Waystation's files do not have: only its own user reads states, mails with live
links and the secret key. `027` shares them with the group, for processes that run as several users.
"""
WAYSTATION_UMASK_OUTSIDE = os.umask(WAYSTATION_UMASK)
"""The umask that this process was started with: files in other people's repositories are written
with it.
"""

BASE_DIR = Path(__file__).resolve().parent.parent

WAYSTATION_DATA = Path(env.text("WAYSTATION_DATA", str(env.data_folder(places.CHECKOUT)))).resolve()
"""The folder of everything outside a database server: workspaces, the sample repository, the
embedded database, the secret key.
"""
WAYSTATION_EMPTY = not (
    WAYSTATION_DATA.exists() or env.text("DATABASE_URL") or env.begins(sys.argv)
)
"""Whether a command runs where no Waystation is set up: it leaves no files, and finds no tables."""
WAYSTATION_REPOSITORIES = defaults.repositories(WAYSTATION_DATA)
WAYSTATION_SHARED = defaults.shared(WAYSTATION_DATA)
WAYSTATION_FILES = defaults.files(WAYSTATION_DATA)
DATA_UPLOAD_MAX_MEMORY_SIZE = max(
    WAYSTATION_BODY_BYTES, WAYSTATION_ORDER_BYTES, WAYSTATION_IMPORT_BYTES
)
"""Django has one limit for all addresses; `hitl.http.incoming` has one for each, and comes first.
"""


DEBUG = env.flag("DEBUG")
SECRET_KEY = env.text("SECRET_KEY") or env.secret_key(WAYSTATION_DATA, empty=WAYSTATION_EMPTY)
ALLOWED_HOSTS = env.items("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = env.items("CSRF_TRUSTED_ORIGINS")
HTTPS = env.flag("HTTPS")
"""Whether this server stands behind TLS: then cookies are sent over TLS only, and the proxy's
X-Forwarded-Proto is believed.
"""
NUM_PROXIES = int(env.number("NUM_PROXIES", 0))
"""How many proxies of ours stand before this server: as many entries at the end of X-Forwarded-For
are believed.
"""
REDIS_URL = env.text("REDIS_URL")
"""Broker and channel layer, `redis://host:port/db`; empty means the embedded default, all in one
process.
"""

CHECKPOINTS, *CHECKPOINTS_FALLBACKS = [
    env.checkpoints(url, redis=REDIS_URL)
    for url in env.items("CHECKPOINTS_URL", "database:", separator=" ")
] or [env.checkpoints("database:", redis="")]
"""Where the bodies of states are kept; further URLs, after spaces, are stores that were used before
and are still read.
"""

WAYSTATION_EXTENSIONS = env.extensions(
    "WAYSTATION_EXTENSIONS",
    BASE_DIR / "extensions",
    default=(
        "agui",
        "booking",
        "chat",
        "coding",
        "langgraph",
        "mail_replies",
        "mcp",
        "repo_tidy",
        "slack",
        "teams",
        "telegram",
    ),
)
"""The packages of `extensions` that are switched on beside the core. Empty: the core alone."""

INSTALLED_APPS = [
    "project.desk.Theme",
    "project.desk.DeskConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    *host.LIBRARIES,
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "allauth.socialaccount.providers.saml",
    *host.CORE,
    *(f"extensions.{name}" for name in WAYSTATION_EXTENSIONS),
]
MIDDLEWARE = [
    # of all pages, not of our own alone
    "hitl.host.policy.ContentPolicy" if name == "hitl.host.policy.OwnPages" else name
    for name in host.merged(
        [
            "hitl.http.languages.middleware",
            "project.admin_policy.middleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "allauth.account.middleware.AccountMiddleware",
        ]
    )
]
"""Each of ours alone behind the one of `host.MIDDLEWARE` before it."""
ROOT_URLCONF = "project.urls"
ASGI_APPLICATION = "project.asgi.application"
TEMPLATES = [host.TEMPLATES]

WAYSTATION_LOCK_SECONDS = env.number("WAYSTATION_LOCK_SECONDS", 10)
"""How long a web server or worker waits for a row that another session of PostgreSQL's holds; 0 is
for ever.
"""
WAYSTATION_STATEMENT_SECONDS = env.number("WAYSTATION_STATEMENT_SECONDS", 60)
"""How long one statement of a web server or worker may take; 0 is any time.

Statements of commands, such as `migrate`, may take any time.
"""
DATABASES = {
    "default": addresses.database(
        env.text(
            "DATABASE_URL",
            "sqlite:///:memory:"
            if WAYSTATION_EMPTY
            else f"sqlite:///{WAYSTATION_DATA / 'waystation.sqlite3'}",
        ),
        pool=int(env.number("DATABASE_POOL", 0)),
        patience=addresses.Patience(
            lock=WAYSTATION_LOCK_SECONDS,
            statement=WAYSTATION_STATEMENT_SECONDS,
            # the rows that a silent host holds are free before its runs are taken back
            idle=max(5, WAYSTATION_LEASE_SECONDS * 2 / 3),
        )
        if env.serves(sys.argv)
        else None,
    )
}
WAYSTATION_PRIVATE = [
    WAYSTATION_DATA,
    *(
        Path(f"{DATABASES['default']['NAME']}{end}")
        for end in ("", "-wal", "-shm")
        if "sqlite" in DATABASES["default"]["ENGINE"]
    ),
    *(
        Path(store["OPTIONS"]["folder"])
        for store in (CHECKPOINTS, *CHECKPOINTS_FALLBACKS)
        if "folder" in store["OPTIONS"]
    ),
]
"""Files and folders that an earlier version may have left open to other users: every start closes
them.
"""
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
globals().update(host.shared(REDIS_URL))
CELERY_BROKER_URL: str
CELERY_BEAT_SCHEDULE = host.beat(INSTALLED_APPS)
globals().update(of_identity(https=HTTPS, secret=env.text("WAYSTATION_OIDC_CLIENT_SECRET").strip()))
WAYSTATION_PASSWORD_RESETS = "project.identity.passwords.PasswordResets"  # noqa: S105  # a class
WAYSTATION_SECOND_FACTORS = "project.identity.second_factors.SecondFactors"
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "hitl:inbox"
LOGOUT_REDIRECT_URL = "login"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_SSL_REDIRECT = HTTPS
SECURE_REDIRECT_EXEMPT = [r"^(livez|readyz|metrics)$"]
"""A load balancer asks each server directly, and without TLS."""
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
"""Both ask that all subdomains of this host are served over TLS, for ever. Only the owner of the
domain knows whether that holds, and sets it in front of this server.
"""
X_FRAME_OPTIONS = "DENY"
globals().update(env.mail(env.text("EMAIL_URL") or f"file://{WAYSTATION_DATA / 'mail'}"))
WAYSTATION_PRIVATE += [Path(folder) for folder in [globals().get("EMAIL_FILE_PATH")] if folder]
EMAIL_TIMEOUT = WAYSTATION_OUTBOUND_SECONDS
DEFAULT_FROM_EMAIL = env.text("EMAIL_FROM", "Waystation <waystation@localhost>")

LANGUAGE_CODE = "en"
"""The language of everything but pages and mails; see `hitl.http.languages`."""
LOCALE_PATHS = [places.LOCALE]
"""Named here, so that our translation of a text wins over Django's and its admin's."""
LANGUAGE_COOKIE_SECURE = HTTPS
TIME_ZONE = env.text("TIME_ZONE", "UTC")
USE_TZ = True
STATIC_URL = "static/"
STATIC_ROOT = Path(env.text("STATIC_ROOT", str(WAYSTATION_DATA / "static")))
STATICFILES_DIRS = [places.STATIC]
if not WAYSTATION_EMPTY:
    env.folder(STATIC_ROOT)
# for collected static files: a web server that runs as another user may serve them
FILE_UPLOAD_DIRECTORY_PERMISSIONS = 0o755
COLLECTED = (STATIC_ROOT / "staticfiles.json").exists()
"""Whether `collectstatic` ran: then static files are served compressed, under names with their
digest; else straight from the apps.
"""
WHITENOISE_USE_FINDERS = not COLLECTED
# of others' scripts, for who looks for faults in these: as long to compress as all the rest
WHITENOISE_SKIP_COMPRESS_EXTENSIONS = (*Compressor.SKIP_COMPRESS_EXTENSIONS, "map")
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"
        if COLLECTED
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}

REST_FRAMEWORK = {**rest.FRAMEWORK, "NUM_PROXIES": NUM_PROXIES}
UNFOLD = {
    "SITE_TITLE": "Waystation",
    "SITE_HEADER": "Waystation",
    "SITE_URL": "/",
    "SHOW_VIEW_ON_SITE": False,
    "STYLES": [lambda request: static("css/admin.css")],
    "SCRIPTS": [lambda request: static("js/admin.js")],
    # shades of the pages' accent
    "COLORS": {
        "primary": {
            "50": "#f3f6fd",
            "100": "#eaf0fc",
            "200": "#cfdcf8",
            "300": "#a9c0f1",
            "400": "#8fadff",
            "500": "#7a9bf3",
            "600": "#2c5ac8",
            "700": "#2449a6",
            "800": "#213f88",
            "900": "#1e3568",
            "950": "#1e2740",
        }
    },
}

LOG_FORMAT = env.one_of("LOG_FORMAT", "line", "json")
"""`json` writes one object a line, for programs that collect logs."""
LOGGING = log_lines.settings(LOG_FORMAT, env.text("LOG_LEVEL", "INFO"))

SENTRY_DSN = env.text("SENTRY_DSN")
SENTRY_ENVIRONMENT = env.text("SENTRY_ENVIRONMENT")
OTEL_EXPORTER_OTLP_ENDPOINT = env.text("OTEL_EXPORTER_OTLP_ENDPOINT")
if env.serves(sys.argv):
    if SENTRY_DSN:
        errors.begin(SENTRY_DSN, release=WAYSTATION_COMMIT, environment=SENTRY_ENVIRONMENT)
    if OTEL_EXPORTER_OTLP_ENDPOINT:
        tracing.begin(release=WAYSTATION_COMMIT)
