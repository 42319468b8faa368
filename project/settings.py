"""One file of settings, 12-factor: every value that differs between machines comes from the environment. See README, "Settings"."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured
from kombu import Exchange, Queue

from project import env, steady
from runs import limits

WAYSTATION_UMASK = env.umask("WAYSTATION_UMASK", "077")
"""Permissions that files of Waystation do not have: states, mails with live links and the key are its own user's. `027` shares them with
the group, for processes that run as several users."""
WAYSTATION_UMASK_OUTSIDE = os.umask(WAYSTATION_UMASK)
"""The one that this process was started with: it holds for what is written into repositories of others."""

BASE_DIR = Path(__file__).resolve().parent.parent

WAYSTATION_DATA = Path(env.text("WAYSTATION_DATA", str(BASE_DIR / "data"))).resolve()
"""Folder of everything that is kept outside the database: workspaces, the sample repository, the embedded database, the secret key."""
WAYSTATION_EMPTY = not (WAYSTATION_DATA.exists() or env.text("DATABASE_URL") or env.begins(sys.argv))
"""Whether a command runs where no Waystation is: it leaves nothing behind, and finds no tables."""
WAYSTATION_REPOSITORIES = [Path(folder).expanduser() for folder in env.items("WAYSTATION_REPOSITORIES", separator=":")] + [
    WAYSTATION_DATA / "sample"
]
"""Folders in which local repositories may lie; work orders reach no other local path."""
WAYSTATION_SHARED = Path(env.text("WAYSTATION_SHARED", str(WAYSTATION_DATA / "shared"))).resolve()
"""Folder that all workers see: what workflows read and keep outside their runs, such as master data and the ledger of `smart-booking`."""
WAYSTATION_FILES = [Path(folder).expanduser() for folder in env.items("WAYSTATION_FILES", separator=":")] + [WAYSTATION_DATA / "inbox"]
"""Folders of files that a work order may name by path; it reaches no other."""
WAYSTATION_GIT_SCHEMES = env.items("WAYSTATION_GIT_SCHEMES", "https")
WAYSTATION_GIT_HOSTS = env.items("WAYSTATION_GIT_HOSTS", "github.com,gitlab.com,codeberg.org,bitbucket.org")
"""Remote hosts that may be cloned from; `*.example.org` allows subdomains."""
WAYSTATION_GIT_AUTHOR = env.text("WAYSTATION_GIT_AUTHOR", "Waystation <waystation@localhost>")
WAYSTATION_CLONE_SECONDS = env.number("WAYSTATION_CLONE_SECONDS", 300, low=1)
WAYSTATION_CLONE_BYTES = int(env.number("WAYSTATION_CLONE_BYTES", 1_000_000_000, low=1))
WAYSTATION_COMMAND_SECONDS = env.number("WAYSTATION_COMMAND_SECONDS", 900, low=1)
WAYSTATION_CODER = env.text("WAYSTATION_CODER")
"""The command line agent that writes code: `claude-code`, `codex`, `gemini-cli`, or a JSON file. See docs/coding-agents.md."""
WAYSTATION_COMMANDS = env.items("WAYSTATION_COMMANDS")
"""Programs that step templates may start beside that one, as they name them; `*` is any. Who edits step templates can run these."""
WAYSTATION_COMMAND_ENVIRONMENT = env.items(
    "WAYSTATION_COMMAND_ENVIRONMENT", "LC_ALL,TZ,HTTP_PROXY,HTTPS_PROXY,NO_PROXY,http_proxy,https_proxy,no_proxy,SSL_CERT_FILE"
)
"""Variables of a worker that step templates may hand to a program; it gets no other."""
WAYSTATION_COMMAND_SANDBOX = env.arguments("WAYSTATION_COMMAND_SANDBOX")
"""What stands before every command line agent, and before the check of a coding order, as a JSON array. See docs/coding-agents.md."""
WAYSTATION_ARTIFACT_BYTES = int(env.number("WAYSTATION_ARTIFACT_BYTES", 5_000_000, low=1000))
"""How much is kept of one text that a step keeps, such as an agent's output; of a longer one beginning and end."""
WAYSTATION_WORKSPACE_BYTES = int(env.number("WAYSTATION_WORKSPACE_BYTES", 4_000_000_000))
"""What one order's workspace may grow to while programs work in it; 0 is any size."""
WAYSTATION_WORKSPACES_BYTES = int(env.number("WAYSTATION_WORKSPACES_BYTES", 0))
"""What all workspaces and mirrors of one machine may use; before a clone that begins beyond it, those of ended orders go. 0 is any size."""
WAYSTATION_WORKSPACE_DAYS = env.number("WAYSTATION_WORKSPACE_DAYS", 7)
"""How long the workspace of an order that ended is kept; a retry makes it anew from the checkpoints. 0 is for ever."""
WAYSTATION_FORGES = env.items("WAYSTATION_FORGES", "https://api.github.com,https://gitlab.com")
"""Origins of forges that pull requests may be opened at: `https://git.example.org:8443`. No other is reached, whatever a name leads to."""
WAYSTATION_FORGE_SECONDS = env.number("WAYSTATION_FORGE_SECONDS", 20, low=1)
"""How long a forge may keep a step waiting, each time."""
WAYSTATION_LEASE_SECONDS = env.number("WAYSTATION_LEASE_SECONDS", 15, low=0.5)
"""A worker that has not renewed its lease for so long is lost; renewed three times in that time."""
WAYSTATION_LOST_ATTEMPTS = int(env.number("WAYSTATION_LOST_ATTEMPTS", 5, low=1))
WAYSTATION_ON_CHANGE = env.one_of("WAYSTATION_ON_CHANGE", "continue", "hold")
"""What a run does at a step whose code has changed since the run was asked for: go on and say so, or wait for an operator. A template's
step may say otherwise (`on_change`)."""
WAYSTATION_CLAIM_SECONDS = env.number("WAYSTATION_CLAIM_SECONDS", 900, low=1)
"""How long somebody who claims a question keeps others from answering it."""
WAYSTATION_SLICE_SECONDS = env.number("WAYSTATION_SLICE_SECONDS", 10)
"""How long one task may take steps of one run before others get their turn."""
WAYSTATION_PATIENCE_SECONDS = env.number("WAYSTATION_PATIENCE_SECONDS", 5)
"""A run that is due for so long without a worker gets its message again."""
WAYSTATION_QUEUES = ("steps", "agents")
"""Where a step may run: long ones in `agents`, so that they never hold up answers in `steps`. The sweep has `control` for itself."""
WAYSTATION_GATHER_WIDTH = int(env.number("WAYSTATION_GATHER_WIDTH", 100, low=1))
"""Child runs that one step may start at once."""
WAYSTATION_GATHER_DEPTH = int(env.number("WAYSTATION_GATHER_DEPTH", 4, low=1))
"""How deep child runs may start child runs of their own."""
WAYSTATION_REDACT = env.items("WAYSTATION_REDACT", "api_key,api_keys,password,passwords,secret,secrets,token,authorization,cookie,cookies")
"""Names of secrets: what stands under them in a state, an event or an answer is not kept (`checkpoints.redaction`). Empty: all is kept."""
WAYSTATION_ENCRYPTION_KEYS = env.encryption_keys("WAYSTATION_ENCRYPTION_KEYS")
"""Newest first; values are written with the first and read with any (`checkpoints.sealing`). None: nothing is encrypted."""
WAYSTATION_CREDENTIALS_FROM_ENV = env.items("WAYSTATION_CREDENTIALS_FROM_ENV")
"""Environment variables that any run may use as credentials by their names, e.g. OPENAI_API_KEY; rows of the same name come first."""
WAYSTATION_MODEL = env.model("WAYSTATION_MODEL", "WAYSTATION_MODEL_URL", "WAYSTATION_MODEL_CREDENTIAL")
"""The model of agents whose template names none, e.g. `openai:gpt-5-mini` at WAYSTATION_MODEL_URL (any endpoint that speaks OpenAI's
protocol), with the key that WAYSTATION_MODEL_CREDENTIAL names. Without them: a scripted one, offline, which says so."""
WAYSTATION_MODEL_ALLOW = [entry.lower() for entry in env.items("WAYSTATION_MODEL_ALLOW")]
"""Hosts (`llm.internal`), addresses and networks inside where agents' endpoints may be that step templates name, also without TLS.
WAYSTATION_MODEL_URL is the operators' own, and needs no line here."""
WAYSTATION_MODEL_PRICES = env.prices("WAYSTATION_MODEL_PRICES")
"""Of models that genai-prices does not know, or at a price of your own."""
WAYSTATION_MODEL_SILENCE = env.number("WAYSTATION_MODEL_SILENCE", 60, low=1)
"""Seconds that a model's endpoint may be silent in the middle of an answer."""
WAYSTATION_MODEL_HISTORY = int(env.number("WAYSTATION_MODEL_HISTORY", 50_000, low=500))
"""About how many tokens of a conversation are given to a model, with its instructions and tools, where the step template does not say."""
WAYSTATION_BODY_BYTES = env.limit("BODY_BYTES")
"""This, and all that `env.limit` reads, is described in docs/limits.md."""
WAYSTATION_ORDER_BYTES = env.limit("ORDER_BYTES")
WAYSTATION_IMPORT_BYTES = env.limit("IMPORT_BYTES")
WAYSTATION_PERSON_STREAMS = env.limit("PERSON_STREAMS")
WAYSTATION_PROCESS_STREAMS = env.limit("PROCESS_STREAMS")
WAYSTATION_MESSAGES_PER_HOUR = env.limit("MESSAGES_PER_HOUR")
WAYSTATION_MESSAGES_PER_DAY = env.limit("MESSAGES_PER_DAY")
WAYSTATION_OUTSIDE_CHARACTERS = env.limit("OUTSIDE_CHARACTERS")
WAYSTATION_OUTSIDE_DOMAINS = [entry.lower() for entry in env.items("WAYSTATION_OUTSIDE_DOMAINS")]
"""Domains (`example.org`, `*.example.org`) that everybody may have mail sent to; others take the right `hitl.mail_outside`."""
WAYSTATION_USER_RATE = env.rate("API_RATE", limits.USER_RATE)
WAYSTATION_ANONYMOUS_RATE = env.limit("ANONYMOUS_RATE")
WAYSTATION_LOGIN_FAILURES = env.limit("LOGIN_FAILURES")
WAYSTATION_LOGIN_ADDRESS_FAILURES = env.limit("LOGIN_ADDRESS_FAILURES")
WAYSTATION_LOGIN_ACCOUNT_FAILURES = env.limit("LOGIN_ACCOUNT_FAILURES")
WAYSTATION_LOGIN_MINUTES = env.limit("LOGIN_MINUTES")
DATA_UPLOAD_MAX_MEMORY_SIZE = max(WAYSTATION_BODY_BYTES, WAYSTATION_ORDER_BYTES, WAYSTATION_IMPORT_BYTES)
"""Django's own limit knows no addresses; `hitl.incoming` does, and comes first."""
WAYSTATION_KEEP_DAYS = env.number("WAYSTATION_KEEP_DAYS", 365)
"""How long checkpoints, the log of ended runs and their memos are kept; 0 is for ever. A template's `retention` may say otherwise."""
WAYSTATION_KEEP_COUNT = int(env.number("WAYSTATION_KEEP_COUNT", 10_000))
"""The newest checkpoints of a thread that are kept, beside those that are never dropped; 0 is any number."""
WAYSTATION_KEEP_CHUNK_HOURS = env.number("WAYSTATION_KEEP_CHUNK_HOURS", 1)
"""How long streamed text is kept beside the result of the step that said it; 0 is as long as the log."""
WAYSTATION_IDEMPOTENCY_HOURS = env.number("WAYSTATION_IDEMPOTENCY_HOURS", 24, low=0.01)
"""How long an `Idempotency-Key` is used up, and the sealed answer under it kept."""
WAYSTATION_EARLY_HOURS = env.number("WAYSTATION_EARLY_HOURS", 168, low=0)
"""How long an answer that comes before its question is kept for it; 0 keeps none."""
WAYSTATION_KEEP_HOURS = env.number("WAYSTATION_KEEP_HOURS", 24)
"""How often what is old is dropped; 0 is never but by `manage.py prune`."""
WAYSTATION_RUN_BYTES = int(env.number("WAYSTATION_RUN_BYTES", 1_000_000_000))
"""What one run may write in checkpoints before it is stopped; 0 is any amount. A template's `size_budget` may say otherwise."""
WAYSTATION_CALENDARS = env.calendars(
    "WAYSTATION_CALENDARS", {"business": {"days": ["mon", "tue", "wed", "thu", "fri"], "hours": ["09:00", "17:00"]}}
)
"""Hours of work by name, which deadlines may be counted in (`runs.workflows.calendars.read`)."""
WAYSTATION_GRAPHS = env.graphs("WAYSTATION_GRAPHS")
"""LangGraph graphs that templates may name, each with its place: `{"mail": "shop.graphs:mail"}` (docs/langgraph.md)."""
WAYSTATION_GRAPH_TYPES = env.items("WAYSTATION_GRAPH_TYPES")
"""Types of their own that graphs keep in their checkpoints, as `module:Name`; others are refused."""
WAYSTATION_EXTEND = env.number("WAYSTATION_EXTEND", 1)
"""How far people may move a deadline: so many times as long as the question was given at first; 0 is not at all."""
WAYSTATION_URL = env.base_url("WAYSTATION_URL", "http://localhost:8000")
"""Where people reach this server: what links in mails and messages begin with. A path behind the host is fine."""
WAYSTATION_OUTBOUND_ALLOW = [entry.lower() for entry in env.items("WAYSTATION_OUTBOUND_ALLOW")]
"""Hosts (`hooks.internal`, `*.internal`), addresses and networks that webhooks may reach though they are not public, also without TLS."""
WAYSTATION_FETCH_ALLOW = [entry.lower() for entry in env.items("WAYSTATION_FETCH_ALLOW")]
"""The same for the agents' tool `fetch`, which reads pages: apart, since who may be told is not who may be read."""
WAYSTATION_OUTBOUND_TRIES = int(env.number("WAYSTATION_OUTBOUND_TRIES", 10, low=1))
"""How often a message is tried before it is given up."""
WAYSTATION_OUTBOUND_SECONDS = env.number("WAYSTATION_OUTBOUND_SECONDS", 10, low=1)
"""How long a receiver may take."""
WAYSTATION_CHAT_SERVICES = env.items(
    "WAYSTATION_CHAT_SERVICES", "slack,workflows,discord,gchat,tgram,webex,wxteams,zulip,pover,pbul,opsgenie,pagerduty"
)
"""Services of Apprise that may be used. Those whose host its address names, such as `mmosts` or `ntfys`, are for operators to add."""
WAYSTATION_LINK_DAYS = env.number("WAYSTATION_LINK_DAYS", 7, low=0.01)
"""How long a link in a mail leads to its question."""
WAYSTATION_DECISIONS = "hitl.decisions.Rows"
"""Who is asked what people decided, whenever a run acts on it: a class like `runs.engine.approvals.Decisions`."""
WAYSTATION_SWEEP_SECONDS = env.number("WAYSTATION_SWEEP_SECONDS", 5, low=0.5)


def _secret_key() -> str:
    """SECRET_KEY, or for the embedded default a key made once and kept in the data folder."""
    if key := env.text("SECRET_KEY"):
        return key
    if WAYSTATION_EMPTY:
        return secrets.token_urlsafe(50)
    path = env.folder(WAYSTATION_DATA) / "secret_key"
    try:
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(secrets.token_urlsafe(50))
        return path.read_text()
    except OSError as error:
        raise ImproperlyConfigured(f"{path} cannot be used ({error.strerror}). Name another folder with WAYSTATION_DATA.") from error


DEBUG = env.flag("DEBUG")
SECRET_KEY = _secret_key()
ALLOWED_HOSTS = env.items("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = env.items("CSRF_TRUSTED_ORIGINS")
HTTPS = env.flag("HTTPS")
"""Served behind TLS: cookies are sent over it only, and the proxy's X-Forwarded-Proto is believed."""
NUM_PROXIES = int(env.number("NUM_PROXIES", 0))
"""Proxies of ours before this server: so many entries at the end of X-Forwarded-For are believed, and none where there are none."""
REDIS_URL = env.text("REDIS_URL")
"""Broker and channel layer, `redis://host:port/db`; empty means the embedded default, all in one process."""

CHECKPOINTS, *CHECKPOINTS_FALLBACKS = [
    env.checkpoints(url, redis=REDIS_URL) for url in env.items("CHECKPOINTS_URL", "database:", separator=" ")
] or [env.checkpoints("database:", redis="")]
"""Where the bodies of states are kept; further URLs, after spaces, are stores that were used before and are still read."""

INSTALLED_APPS = [
    "unfold",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "lucide",
    "csp",
    "axes",
    "checkpoints",
    "runs",
    "hitl",
]
MIDDLEWARE = [
    "hitl.tracing.middleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "project.admin_policy.middleware",
    "project.unavailable.Unavailable",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "hitl.authentication.middleware",
    "hitl.incoming.middleware",
    "hitl.throttles.middleware",
    "hitl.idempotency.middleware",
    "axes.middleware.AxesMiddleware",
]
ROOT_URLCONF = "project.urls"
ASGI_APPLICATION = "project.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "project.templating.SendableTemplates",
        "NAME": "django",  # as libraries ask for it, which would else be the module's name
        "DIRS": [BASE_DIR / "templates"],
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
]

WAYSTATION_LOCK_SECONDS = env.number("WAYSTATION_LOCK_SECONDS", 10)
"""How long a web server or worker waits for a row that another session of PostgreSQL's holds; 0 is for ever."""
WAYSTATION_STATEMENT_SECONDS = env.number("WAYSTATION_STATEMENT_SECONDS", 60)
"""How long one statement of theirs may take; 0 is any time. Commands, such as `migrate`, may take any."""
DATABASES = {
    "default": env.database(
        env.text("DATABASE_URL", f"sqlite:///{':memory:' if WAYSTATION_EMPTY else WAYSTATION_DATA / 'waystation.sqlite3'}"),
        pool=int(env.number("DATABASE_POOL", 0)),
        patience=env.Patience(
            lock=WAYSTATION_LOCK_SECONDS,
            statement=WAYSTATION_STATEMENT_SECONDS,
            idle=max(5, WAYSTATION_LEASE_SECONDS * 2 / 3),  # what a silent host holds is free before its runs are taken back
        )
        if env.serves(sys.argv)
        else None,
    )
}
WAYSTATION_PRIVATE = [
    WAYSTATION_DATA,
    *(Path(f"{DATABASES['default']['NAME']}{end}") for end in ("", "-wal", "-shm") if "sqlite" in DATABASES["default"]["ENGINE"]),
    *(Path(store["OPTIONS"]["folder"]) for store in (CHECKPOINTS, *CHECKPOINTS_FALLBACKS) if "folder" in store["OPTIONS"]),
]
"""Files and folders that an earlier version may have left open to other users: they are closed at every start."""
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
SERIALIZATION_MODULES = {"json": "checkpoints.exact_json", "jsonl": "checkpoints.exact_jsonl"}
"""`dumpdata` and `loaddata` keep every microsecond."""
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator", "NumericPasswordValidator")
]
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
AXES_HANDLER = "hitl.logins.Handler"
AXES_FAILURE_LIMIT = WAYSTATION_LOGIN_FAILURES
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]  # the handler knows all three
AXES_COOLOFF_TIME = "hitl.logins.waits"
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_CLIENT_IP_CALLABLE = "hitl.clients.address_of"
AXES_LOCKOUT_CALLABLE = "hitl.logins.locked_out"
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "hitl:inbox"
LOGOUT_REDIRECT_URL = "login"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_SSL_REDIRECT = HTTPS
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
"""Whether all subdomains of a host are served over TLS, for ever, only who owns the domain knows: it is set in front of this server."""
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
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

globals().update(env.mail(env.text("EMAIL_URL") or f"file://{WAYSTATION_DATA / 'mail'}"))
WAYSTATION_PRIVATE += [Path(folder) for folder in [globals().get("EMAIL_FILE_PATH")] if folder]
EMAIL_TIMEOUT = WAYSTATION_OUTBOUND_SECONDS
DEFAULT_FROM_EMAIL = env.text("EMAIL_FROM", "Waystation <waystation@localhost>")

LANGUAGE_CODE = "en-gb"
FORMAT_MODULE_PATH = "project.formats"
TIME_ZONE = env.text("TIME_ZONE", "UTC")
USE_TZ = True
STATIC_URL = "static/"
STATIC_ROOT = Path(env.text("STATIC_ROOT", str(WAYSTATION_DATA / "static")))
STATICFILES_DIRS = [BASE_DIR / "static"]
if not WAYSTATION_EMPTY:
    env.folder(STATIC_ROOT)
FILE_UPLOAD_DIRECTORY_PERMISSIONS = 0o755  # of collected static files, which a web server of another user may serve
COLLECTED = (STATIC_ROOT / "staticfiles.json").exists()
"""Whether `collectstatic` ran: then files are served compressed under names with their digest, else straight from the apps."""
WHITENOISE_USE_FINDERS = not COLLECTED
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"
        if COLLECTED
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}

CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "waystation",
        "OPTIONS": {"socket_timeout": 0.5, "socket_connect_timeout": 0.5},
    }
    if REDIS_URL
    else {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
}
"""Shared by all processes, for counting requests; the embedded default is one process. Nothing is lost with it."""

CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [{"address": REDIS_URL, **env.redis_alive(REDIS_URL)}]},
    }
    if REDIS_URL
    else {"BACKEND": "project.local_layer.LocalChannelLayer"}
}

CELERY_BROKER_URL = REDIS_URL or "memory://localhost/"
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # a worker waits for its broker as long as it takes
CELERY_BROKER_TRANSPORT_OPTIONS = (
    # a broker that hangs may hold a sender for a second or two, not for minutes; redelivery is the lease's work, not the broker's
    {"socket_timeout": 1, "socket_connect_timeout": 1, "health_check_interval": 5, **env.redis_alive(REDIS_URL)}
    if REDIS_URL
    else {"polling_interval": 0.05}
)
CELERY_TASK_PUBLISH_RETRY = False
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_DB_REUSE_MAX = 1000  # tasks per connection; without it Celery opens one for each, which costs as much as several commits
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = 5.0
"""Seconds that steps at work may go on after SIGTERM; see `project.celery`."""
CELERY_TASK_DEFAULT_QUEUE = "steps"
CELERY_TASK_QUEUES = [Queue(name, Exchange(name), routing_key=name) for name in ("control", "steps", "agents", "outbound")]
"""`control` is the sweep's, `outbound` is for what is sent to people and systems;
a template's step says `steps` or `agents`, which is for those that take minutes."""
CELERY_TASK_ROUTES = {
    "hitl.tasks.deliver": {"queue": "outbound"},
    "runs.tasks.sweep": {"queue": "control"},
    "runs.turn_tasks.*": {"queue": "control"},
    "hitl.tasks.*": {"queue": "control"},
}
CELERY_BEAT_SCHEDULE = {
    "sweep": {"task": "runs.tasks.sweep", "schedule": steady.Every(WAYSTATION_SWEEP_SECONDS)},
    "deadlines": {"task": "hitl.tasks.fire_deadlines", "schedule": steady.Every(WAYSTATION_SWEEP_SECONDS)},
    "announce": {"task": "hitl.tasks.announce", "schedule": steady.Every(WAYSTATION_SWEEP_SECONDS)},
    "early answers": {"task": "hitl.tasks.take_early_answers", "schedule": steady.Every(WAYSTATION_SWEEP_SECONDS)},
    "anchor-ledgers": {"task": "hitl.tasks.anchor_ledgers", "schedule": steady.Every(300.0)},
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["hitl.authentication.BearerAuthentication", "rest_framework.authentication.SessionAuthentication"],
    "UNICODE_JSON": False,  # escapes, since a state may hold what UTF-8 cannot: half a surrogate pair
    "DEFAULT_PERMISSION_CLASSES": [
        "rest_framework.permissions.IsAuthenticated",
        "hitl.authentication.WithinScope",
        "project.queries.KnownQuery",
    ],
    "URL_FORMAT_OVERRIDE": None,  # there is one format; where there are two, `format` is the view's own
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["hitl.incoming.JsonParser", "hitl.incoming.UntypedJsonParser"],
    "DEFAULT_SCHEMA_CLASS": "project.openapi.operation.Operation",
    "DEFAULT_THROTTLE_CLASSES": ["hitl.throttles.PerPerson"],
    "NUM_PROXIES": NUM_PROXIES,
    "EXCEPTION_HANDLER": "project.errors.exception_handler",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Waystation",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "DESCRIPTION": "Long-running work that stops for a person and starts again. Errors are RFC 9457 problem details with a stable `code`. "
    "Each response has `X-Trace-Id`: the run's id where the request is about a run.",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/(v1|agent-work-orders)",
    "PARSER_WHITELIST": ["hitl.incoming.JsonParser", "hitl.api_portable.DocumentParser"],
    "ENUM_NAME_OVERRIDES": {
        "RunStatusEnum": "runs.states.RunStatus",
        "CheckpointStatusEnum": "checkpoints.models.CheckpointStatus",
        "OccasionEnum": "hitl.outbound_models.Occasion",
    },
    "ENFORCE_NON_BLANK_FIELDS": True,
    "COMPONENT_SPLIT_PATCH": False,  # what a PATCH needs, its serializer says
    "LICENSE": {"name": "MIT", "identifier": "MIT"},
    "SERVERS": [{"url": "/"}],
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "project.openapi.document.with_streams",
        "project.openapi.document.with_tags",
    ],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
}
UNFOLD = {"SITE_TITLE": "Waystation", "SITE_HEADER": "Waystation", "SITE_URL": "/", "SHOW_VIEW_ON_SITE": False}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": env.text("LOG_LEVEL", "INFO")},
    "loggers": {
        "django.channels.server": {"level": "WARNING"},
        "celery": {"level": "WARNING"},
        "daphne": {"level": "WARNING"},
        "kombu": {"level": "WARNING"},
        "httpx2": {"level": "WARNING"},
    },
}
