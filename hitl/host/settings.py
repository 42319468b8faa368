"""The settings with which a Django project serves the apps: `complete(globals())` at the end of its
own, and what `project.settings` is made of.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from csp.constants import NONE, SELF
from kombu import Exchange, Queue

from checkpoints.database import addresses
from hitl.host import steady
from hitl.http import rest
from hitl.openapi import enums
from hitl.rendering import places
from runs import env
from runs.defaults import (
    WAYSTATION_LOGIN_FAILURES,
    WAYSTATION_REPLY_MAILBOX,
    WAYSTATION_SWEEP_SECONDS,
)

LIBRARIES = [
    "django.contrib.humanize",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "csp",
    "axes",
]
CORE = ["checkpoints", "runs", "hitl"]
APPS = [*LIBRARIES, *CORE]
"""Behind Django's own, in this order; extensions stand behind them."""
MIDDLEWARE = [
    "hitl.http.compression.middleware",
    "hitl.http.tracing.middleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "hitl.host.policy.OwnPages",
    "hitl.views.probes.middleware",
    "hitl.http.languages.middleware",
    "hitl.host.unavailable.Unavailable",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "hitl.http.authentication.middleware",
    "hitl.http.incoming.middleware",
    "hitl.http.throttles.middleware",
    "hitl.http.idempotency.middleware",
    "axes.middleware.AxesMiddleware",
]
"""Django's own and ours, in the order in which they need each other."""
TEMPLATES: dict[str, Any] = {
    "BACKEND": "hitl.rendering.templating.SendableTemplates",
    "NAME": "django",  # libraries ask for this name; the default would be the module's
    "DIRS": [places.TEMPLATES],
    "APP_DIRS": True,
    "OPTIONS": {
        "context_processors": [
            "django.template.context_processors.request",
            "django.contrib.auth.context_processors.auth",
            "django.contrib.messages.context_processors.messages",
            "hitl.views.common.navigation",
        ],
        "builtins": ["hitl.templatetags.hitl"],
    },
}


def complete(settings: dict[str, Any]) -> None:
    """Add what serving the apps takes to a project's settings. What it has set itself stays, in its
    order; its other apps, middlewares and templates, too.
    """
    redis = settings.setdefault("REDIS_URL", env.text("REDIS_URL"))
    if "BASE_DIR" in settings:
        settings.setdefault("WAYSTATION_DATA", settings["BASE_DIR"] / "data")
    own = settings.setdefault("INSTALLED_APPS", [])
    extensions = [app for app in own if app.startswith("extensions.")]
    kept = [app for app in own if app not in extensions]
    if "django.contrib.admin" in kept and "unfold" not in kept:  # our pages of it are Unfold's
        kept.insert(kept.index("django.contrib.admin"), "unfold")
    settings["INSTALLED_APPS"] = [*kept, *(app for app in APPS if app not in kept), *extensions]
    settings["MIDDLEWARE"] = merged(settings.get("MIDDLEWARE", ()))
    for name, mine in {"STATICFILES_DIRS": places.STATIC, "LOCALE_PATHS": places.LOCALE}.items():
        settings[name] = [*settings.get(name, ()), mine]
    # first, since it gives what is ours alone; a project's own pages are its own engine's
    theirs = settings.get("TEMPLATES", [])
    folders = [place for engine in theirs for place in engine.get("DIRS", ())]
    ours = {
        **TEMPLATES,
        "BACKEND": "hitl.rendering.templating.OwnTemplates",
        "NAME": "waystation",
        "DIRS": [places.TEMPLATES, *folders],
    }
    settings["TEMPLATES"] = [ours, *theirs]
    database = settings["DATABASES"]["default"]
    if database["ENGINE"].endswith(".sqlite3"):
        database["OPTIONS"] = {**addresses.SQLITE, **database.get("OPTIONS", {})}
    others = {
        **shared(redis),
        "CELERY_BEAT_SCHEDULE": beat(extensions),
        "ASGI_APPLICATION": "hitl.host.asgi.application",
        "LOGIN_URL": "login",
        "LOGIN_REDIRECT_URL": "hitl:inbox",
        "LOGOUT_REDIRECT_URL": "login",
        "WHITENOISE_USE_FINDERS": True,
        "REST_FRAMEWORK": rest.FRAMEWORK,
    }
    for name, value in others.items():
        settings.setdefault(name, value)


def merged(own: Sequence[str]) -> list[str]:
    """The middlewares of a project among `MIDDLEWARE`: each of its further ones behind the one that
    it stands behind there.
    """
    found, at = list(MIDDLEWARE), 0
    for name in own:
        if name in found:
            at = found.index(name) + 1
        else:
            found.insert(at, name)
            at += 1
    return found


def beat(apps: Collection[str]) -> dict[str, dict[str, Any]]:
    """What Celery's beat sends, by INSTALLED_APPS."""
    sent = {
        "rounds": ("runs.tasks.order_rounds", WAYSTATION_SWEEP_SECONDS),
        "anchor-ledgers": ("hitl.tasks.anchor_ledgers", 300.0),
    }
    if WAYSTATION_REPLY_MAILBOX is not None and "extensions.mail_replies" in apps:
        sent["read-mailbox"] = ("extensions.mail_replies.tasks.read_mailbox", 30.0)
    return {
        name: {"task": task, "schedule": steady.Every(seconds)}
        for name, (task, seconds) in sent.items()
    }


def shared(redis: str) -> dict[str, Any]:
    """What the shipped project and others set alike; `redis` is its URL, "" for one process."""
    return {
        **_AXES,
        **_LANGUAGES,
        **_celery(redis),
        "SERIALIZATION_MODULES": {
            "json": "checkpoints.text.exact_json",
            "jsonl": "checkpoints.text.exact_jsonl",
        },  # `dumpdata` and `loaddata` keep every microsecond
        "SESSION_ENGINE": "hitl.http.session_store",
        "CONTENT_SECURITY_POLICY": _POLICY,
        "SPECTACULAR_SETTINGS": _OPENAPI,
        # shared by all processes, for counting requests; a cache that is lost takes nothing along
        "CACHES": {"default": _cache(redis)},
        "CHANNEL_LAYERS": {"default": _layer(redis)},
    }


_AXES = {
    "AUTHENTICATION_BACKENDS": [
        "axes.backends.AxesStandaloneBackend",
        "hitl.http.logins.Backend",
    ],
    "AXES_HANDLER": "hitl.http.logins.Handler",
    "AXES_FAILURE_LIMIT": WAYSTATION_LOGIN_FAILURES,
    "AXES_LOCKOUT_PARAMETERS": [["username", "ip_address"]],  # `Handler` counts two more ways
    "AXES_COOLOFF_TIME": "hitl.http.logins.waits",
    "AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT": False,
    "AXES_CLIENT_IP_CALLABLE": "hitl.http.clients.address_of",
    "AXES_LOCKOUT_CALLABLE": "hitl.http.logins.locked_out",
    "AXES_ENABLE_ADMIN": False,
    "AXES_VERBOSE": False,
}
_LANGUAGES = {
    "LANGUAGES": [("en", "English"), ("de", "Deutsch")],
    "LANGUAGE_COOKIE_AGE": 31_536_000,
    "LANGUAGE_COOKIE_HTTPONLY": True,
    "LANGUAGE_COOKIE_SAMESITE": "Lax",
    "FORMAT_MODULE_PATH": "hitl.formats",
}
_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "img-src": [SELF, "data:"],
        "style-src": [SELF],
        "script-src": [SELF],
        "object-src": [NONE],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    },
}
_OPENAPI = {
    "TITLE": "Waystation",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "DESCRIPTION": "Long-running work that stops for a person and starts again. Errors are RFC "
    "9457 problem "
    "details with a stable `code`. "
    "Each response has `X-Trace-Id`: the run's id where the request is about a run.",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/(v1|agent-work-orders)",
    "PARSER_WHITELIST": [
        "hitl.http.incoming.JsonParser",
        "hitl.api.threads.export.DocumentParser",
        "rest_framework.parsers.MultiPartParser",
    ],
    "ENUM_NAME_OVERRIDES": enums.NAMES,
    "ENFORCE_NON_BLANK_FIELDS": True,
    "COMPONENT_SPLIT_PATCH": False,  # the serializer itself says which fields a PATCH needs
    "LICENSE": {"name": "MIT", "identifier": "MIT"},
    "SERVERS": [{"url": "/"}],
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "hitl.openapi.streams.with_streams",
        "hitl.openapi.document.with_tags",
    ],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
}


def _cache(redis: str) -> dict[str, Any]:
    if not redis:
        return {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
    return {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": redis,
        "KEY_PREFIX": "waystation",
        "OPTIONS": {
            "pool_class": "hitl.host.redis.cache.SharedPool",
            "socket_timeout": 0.5,
            "socket_connect_timeout": 0.5,
        },
    }


def _layer(redis: str) -> dict[str, Any]:
    if not redis:
        return {"BACKEND": "hitl.host.local_layer.LocalChannelLayer"}
    return {
        "BACKEND": "hitl.host.redis.layer.RedisLayer",
        "CONFIG": {"host": {"address": redis, **env.redis_alive(redis)}},
    }


def _celery(redis: str) -> dict[str, Any]:
    return {
        "CELERY_BROKER_URL": redis or "memory://localhost/",
        "CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP": True,
        # a worker waits for its broker as long as it takes
        "CELERY_BROKER_CONNECTION_MAX_RETRIES": None,
        # a broker that hangs may hold a sender for seconds, not minutes; leases see to redelivery
        "CELERY_BROKER_TRANSPORT_OPTIONS": {
            "socket_timeout": 1,
            "socket_connect_timeout": 1,
            "health_check_interval": 5,
            **env.redis_alive(redis),
        }
        if redis
        else {"polling_interval": 0.05},
        "CELERY_TASK_PUBLISH_RETRY": False,
        "CELERY_TASK_IGNORE_RESULT": True,
        "CELERY_TASK_SERIALIZER": "json",
        "CELERY_ACCEPT_CONTENT": ["json"],
        "CELERY_TASK_ACKS_LATE": True,
        "CELERY_TASK_REJECT_ON_WORKER_LOST": True,
        "CELERY_WORKER_PREFETCH_MULTIPLIER": 1,
        "CELERY_WORKER_HIJACK_ROOT_LOGGER": False,
        # tasks per connection; without this Celery opens one for each task, at the cost of several
        # commits
        "CELERY_DB_REUSE_MAX": 1000,
        # seconds that steps at work may go on after SIGTERM; see `hitl.host.celery`
        "CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT": 5.0,
        "CELERY_TASK_DEFAULT_QUEUE": "steps",
        # `control` is for the sweep, `outbound` for messages to people and systems. A template's
        # step names `steps` or `agents`, which is for steps that take minutes.
        "CELERY_TASK_QUEUES": [
            Queue(name, Exchange(name), routing_key=name)
            for name in ("control", "steps", "agents", "outbound")
        ],
        "CELERY_TASK_ROUTES": {
            "extensions.mail_replies.tasks.read_mailbox": {"queue": "outbound"},
            "hitl.tasks.deliver": {"queue": "outbound"},
            "runs.tasks.order_rounds": {"queue": "control"},
            "runs.tasks.sweep": {"queue": "control"},
            "runs.turn_tasks.*": {"queue": "control"},
            "hitl.tasks.*": {"queue": "control"},
        },
    }
