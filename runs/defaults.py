"""Settings that the apps read, each with its default and what it is for.

A project may set any of them; the environment may too.

The project that is shipped takes all of them as they are. In another one `fill` adds those that it
left out, before anything reads them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from runs import env, limits

WAYSTATION_GIT_SCHEMES = env.items("WAYSTATION_GIT_SCHEMES", "https")
WAYSTATION_GIT_HOSTS = env.items(
    "WAYSTATION_GIT_HOSTS", "github.com,gitlab.com,codeberg.org,bitbucket.org"
)
"""Remote hosts that may be cloned from; `*.example.org` allows subdomains."""
WAYSTATION_GIT_AUTHOR = env.text("WAYSTATION_GIT_AUTHOR", "Waystation <waystation@localhost>")
WAYSTATION_CLONE_SECONDS = env.number("WAYSTATION_CLONE_SECONDS", 300, low=1)
WAYSTATION_CLONE_BYTES = int(env.number("WAYSTATION_CLONE_BYTES", 1_000_000_000, low=1))
WAYSTATION_COMMAND_SECONDS = env.number("WAYSTATION_COMMAND_SECONDS", 900, low=1)
WAYSTATION_WORKFLOWS = env.items("WAYSTATION_WORKFLOWS") or ["+"]
"""Modules that declare workflows, and folders of such modules (`runs.definitions.loading`): beside
those of the extensions where the first begins with `+`, else in their place.
"""
WAYSTATION_LANGUAGE = env.one_of("WAYSTATION_LANGUAGE", "en", "de")
"""Of pages where neither a person nor their browser chose one, and of mails and messages."""
WAYSTATION_SCHEDULES_BY = env.text("WAYSTATION_SCHEDULES_BY")
"""The account in whose name schedules order that the code declares without one."""
WAYSTATION_PUBLISH = env.flag("WAYSTATION_PUBLISH", default=True)
"""Whether web servers and workers save declared workflows as templates when they start; else
`manage.py load_templates` does.
"""
WAYSTATION_CODER = env.text("WAYSTATION_CODER")
"""The command line agent that writes code: `claude-code`, `codex`, `gemini-cli`, or a JSON file.

See docs/how-to/coding-agents.md.
"""
WAYSTATION_COMMANDS = env.items("WAYSTATION_COMMANDS")
"""Programs that step templates may start beside that one, as they name them; `*` is any.

Who edits step templates can run these.
"""
WAYSTATION_COMMAND_ENVIRONMENT = env.items(
    "WAYSTATION_COMMAND_ENVIRONMENT",
    "LC_ALL,TZ,HTTP_PROXY,HTTPS_PROXY,NO_PROXY,http_proxy,https_proxy,no_proxy,SSL_CERT_FILE",
)
"""Variables of a worker that step templates may hand to a program; it gets no other."""
WAYSTATION_COMMAND_SANDBOX = env.arguments("WAYSTATION_COMMAND_SANDBOX")
"""What stands before every command line agent, and before the check of a coding order, as a JSON
array. See docs/how-to/sandbox.md.
"""
WAYSTATION_ARTIFACT_BYTES = int(env.number("WAYSTATION_ARTIFACT_BYTES", 5_000_000, low=1000))
"""How much is kept of one text that a step keeps, such as an agent's output; of a longer one
beginning and end.
"""
WAYSTATION_ARTIFACTS_BYTES = int(env.number("WAYSTATION_ARTIFACTS_BYTES", 256_000_000))
"""What all such texts of one run may come to; a step that would keep more fails. 0 is any size."""
WAYSTATION_LOG_LINES = int(env.number("WAYSTATION_LOG_LINES", 2000, low=1))
"""Lines that one execution of a step may write to its run's log; more are kept as an artifact."""
WAYSTATION_WORKSPACE_BYTES = int(env.number("WAYSTATION_WORKSPACE_BYTES", 4_000_000_000))
"""What one order's workspace may grow to while programs work in it; 0 is any size."""
WAYSTATION_WORKSPACES_BYTES = int(env.number("WAYSTATION_WORKSPACES_BYTES", 0))
"""What all workspaces and mirrors of one machine may use; before a clone that begins beyond it,
those of ended orders go. 0 is any size.
"""
WAYSTATION_WORKSPACE_DAYS = env.number("WAYSTATION_WORKSPACE_DAYS", 7)
"""How long the workspace of an order that ended is kept; a retry makes it anew from the
checkpoints. 0 is for ever.
"""
WAYSTATION_FORGES = env.items("WAYSTATION_FORGES", "https://api.github.com,https://gitlab.com")
"""Origins of forges that pull requests may be opened at: `https://git.example.org:8443`.

No other is reached, whatever a name leads to.
"""
WAYSTATION_FORGE_SECONDS = env.number("WAYSTATION_FORGE_SECONDS", 20, low=1)
"""How long a forge may keep a step waiting, each time."""
WAYSTATION_LEASE_SECONDS = env.number("WAYSTATION_LEASE_SECONDS", 15, low=0.5)
"""A worker that has not renewed its lease for so long is lost; renewed three times in that time."""
WAYSTATION_LOST_ATTEMPTS = int(env.number("WAYSTATION_LOST_ATTEMPTS", 5, low=1))
WAYSTATION_BODIES = env.one_of("WAYSTATION_BODIES", "processes", "threads")
"""Where a worker runs the bodies of steps: in processes of their own, which can be ended whatever
they do, or in its own threads, which cannot.
"""
WAYSTATION_STEP_GRACE = env.number("WAYSTATION_STEP_GRACE", 10, low=0.1)
"""How long a body may take to end, once its run was cancelled or its time is up; then its process
is killed.
"""
WAYSTATION_STEP_MEMORY = int(env.number("WAYSTATION_STEP_MEMORY", 2_000_000_000, low=0))
"""Bytes that a step may take in memory, on Linux; 0 is any number."""
WAYSTATION_ON_CHANGE = env.one_of("WAYSTATION_ON_CHANGE", "continue", "hold")
"""What a run does at a step whose code has changed since the run was asked for: go on and say so,
or wait for an operator. A workflow or a step may say otherwise (`on_change`)."""
WAYSTATION_CLAIM_SECONDS = env.number("WAYSTATION_CLAIM_SECONDS", 900, low=1)
"""How long somebody who claims a question keeps others from answering it."""
WAYSTATION_STEP_TIMEOUT = env.number("WAYSTATION_STEP_TIMEOUT", 3600, low=1)
"""Seconds that one try of a step may take where its template does not say. An agent or a program
whose own limits are longer gets the time of those.
"""
WAYSTATION_SLICE_SECONDS = env.number("WAYSTATION_SLICE_SECONDS", 10)
"""How long one task may take steps of one run before others get their turn."""
WAYSTATION_PATIENCE_SECONDS = env.number("WAYSTATION_PATIENCE_SECONDS", 5)
"""A run that is due for so long without a worker gets its message again."""
WAYSTATION_QUEUES = ("steps", "agents")
"""Where a step may run: long ones in `agents`, so that they never hold up answers in `steps`.

The sweep has `control` for itself.
"""
WAYSTATION_GATHER_WIDTH = int(env.number("WAYSTATION_GATHER_WIDTH", 100, low=1))
"""Child runs of one step that may be under way at once; further ones wait their turn."""
WAYSTATION_GATHER_DEPTH = int(env.number("WAYSTATION_GATHER_DEPTH", 4, low=1))
"""How deep child runs may start child runs of their own."""
WAYSTATION_REDACT = env.items(
    "WAYSTATION_REDACT",
    "api_key,api_keys,password,passwords,secret,secrets,token,authorization,cookie,cookies",
)
"""Names of secrets: what stands under them in a state, an event or an answer is not kept
(`checkpoints.state.redaction`). Empty: all is kept.
"""
WAYSTATION_ENCRYPTION_KEYS = env.encryption_keys("WAYSTATION_ENCRYPTION_KEYS")
"""Newest first; values are written with the first and read with any
(`checkpoints.state.encryption`). None: nothing is encrypted.
"""
WAYSTATION_CREDENTIALS_FROM_ENV = env.items("WAYSTATION_CREDENTIALS_FROM_ENV")
"""Environment variables that any run may use as credentials by their names, e.g.

OPENAI_API_KEY; rows of the same name come first.
"""
WAYSTATION_MODEL = env.model(
    "WAYSTATION_MODEL", "WAYSTATION_MODEL_URL", "WAYSTATION_MODEL_CREDENTIAL"
)
"""The model of agents whose template names none, e.g.

`openai:gpt-5-mini` at WAYSTATION_MODEL_URL (any endpoint that speaks OpenAI's protocol), with the
key that WAYSTATION_MODEL_CREDENTIAL names. Without them: a scripted one, offline, which says so."""
WAYSTATION_MODEL_ALLOW = [entry.lower() for entry in env.items("WAYSTATION_MODEL_ALLOW")]
"""Hosts (`llm.internal`), addresses and networks inside where agents' endpoints may be that step
templates name, also without TLS.
WAYSTATION_MODEL_URL is the operators' own, and needs no line here."""
WAYSTATION_MODEL_PRICES = env.prices("WAYSTATION_MODEL_PRICES")
"""Of models that genai-prices does not know, or at a price of your own."""
WAYSTATION_MODEL_SILENCE = env.number("WAYSTATION_MODEL_SILENCE", 60, low=1)
"""Seconds that a model's endpoint may be silent in the middle of an answer."""
WAYSTATION_MODEL_HISTORY = int(env.number("WAYSTATION_MODEL_HISTORY", 50_000, low=500))
"""About how many tokens of a conversation are given to a model, with its instructions and tools,
where the step template does not say.
"""
WAYSTATION_BODY_BYTES = env.limit("BODY_BYTES")
"""This, and all that `env.limit` reads, is described in docs/reference/limits.md."""
WAYSTATION_ORDER_BYTES = env.limit("ORDER_BYTES")
WAYSTATION_IMPORT_BYTES = env.limit("IMPORT_BYTES")
WAYSTATION_SCHEDULES = env.limit("SCHEDULES")
WAYSTATION_STORE_ITEMS = env.limit("STORE_ITEMS")
WAYSTATION_STORE_BYTES = env.limit("STORE_BYTES")
WAYSTATION_TOKEN_WAITS = env.limit("TOKEN_WAITS")
WAYSTATION_PERSON_STREAMS = env.limit("PERSON_STREAMS")
WAYSTATION_PROCESS_STREAMS = env.limit("PROCESS_STREAMS")
WAYSTATION_MESSAGES_PER_HOUR = env.limit("MESSAGES_PER_HOUR")
WAYSTATION_MESSAGES_PER_DAY = env.limit("MESSAGES_PER_DAY")
WAYSTATION_OUTSIDE_CHARACTERS = env.limit("OUTSIDE_CHARACTERS")
WAYSTATION_OUTSIDE_DOMAINS = [entry.lower() for entry in env.items("WAYSTATION_OUTSIDE_DOMAINS")]
"""Domains (`example.org`, `*.example.org`) that everybody may have mail sent to; others take the
right `hitl.mail_outside`.
"""
WAYSTATION_USER_RATE = env.rate("API_RATE", limits.USER_RATE)
WAYSTATION_ANONYMOUS_RATE = env.limit("ANONYMOUS_RATE")
WAYSTATION_LOGIN_FAILURES = env.limit("LOGIN_FAILURES")
WAYSTATION_LOGIN_ADDRESS_FAILURES = env.limit("LOGIN_ADDRESS_FAILURES")
WAYSTATION_LOGIN_ACCOUNT_FAILURES = env.limit("LOGIN_ACCOUNT_FAILURES")
WAYSTATION_LOGIN_MINUTES = env.limit("LOGIN_MINUTES")
WAYSTATION_KEEP_DAYS = env.number("WAYSTATION_KEEP_DAYS", 365)
"""How long checkpoints, the log of ended runs and their memos are kept; 0 is for ever.

A template's `retention` may say otherwise.
"""
WAYSTATION_KEEP_COUNT = int(env.number("WAYSTATION_KEEP_COUNT", 10_000))
"""The newest checkpoints of a thread that are kept, beside those that are never dropped; 0 is any
number.
"""
WAYSTATION_KEEP_CHUNK_HOURS = env.number("WAYSTATION_KEEP_CHUNK_HOURS", 1)
"""How long streamed text is kept beside the result of the step that said it; 0 is as long as the
log.
"""
WAYSTATION_IDEMPOTENCY_HOURS = env.number("WAYSTATION_IDEMPOTENCY_HOURS", 24, low=0.01)
"""How long an `Idempotency-Key` is used up, and the sealed answer under it kept."""
WAYSTATION_EARLY_HOURS = env.number("WAYSTATION_EARLY_HOURS", 168, low=0)
"""How long an answer that comes before its question is kept for it; 0 keeps none."""
WAYSTATION_KEEP_HOURS = env.number("WAYSTATION_KEEP_HOURS", 24)
"""How often what is old is dropped; 0 is never but by `manage.py prune`."""
WAYSTATION_RUN_BYTES = int(env.number("WAYSTATION_RUN_BYTES", 1_000_000_000))
"""What one run may write in checkpoints before it is stopped; 0 is any amount.

A template's `size_budget` may say otherwise.
"""
WAYSTATION_STATE_BYTES = int(env.number("WAYSTATION_STATE_BYTES", 64_000_000))
"""What a state may come to, as canonical JSON; one that is larger is not recorded. 0 is any
size.
"""
WAYSTATION_CALENDARS = env.calendars(
    "WAYSTATION_CALENDARS",
    {"business": {"days": ["mon", "tue", "wed", "thu", "fri"], "hours": ["09:00", "17:00"]}},
)
"""Hours of work by name, which deadlines may be counted in
(`runs.workflows.reviews.calendars.read`).
"""
WAYSTATION_GRAPHS = env.graphs("WAYSTATION_GRAPHS")
"""LangGraph graphs that templates may name, each with its place: `{"mail": "shop.graphs:mail"}`
(docs/how-to/langgraph.md).
"""
WAYSTATION_GRAPH_TYPES = env.items("WAYSTATION_GRAPH_TYPES")
"""Types of their own that graphs keep in their checkpoints, as `module:Name`; others are
refused.
"""
WAYSTATION_MCP_TOOLS = env.text("WAYSTATION_MCP_TOOLS")
"""The file with the tools of MCP servers that agents may use (`manage.py mcp_tools`); "" for none.
"""
WAYSTATION_MCP = env.flag("WAYSTATION_MCP")
"""Whether `/mcp` is served (docs/how-to/mcp.md); it takes `extensions/mcp/requirements.txt`."""
WAYSTATION_MCP_OWNER_DECIDES = env.flag("WAYSTATION_MCP_OWNER_DECIDES")
"""Whether the person of an agent's token may approve what the agent asks: for an installation of
one person. The token itself never may.
"""
WAYSTATION_MCP_PERMISSION_MINUTES = env.number("WAYSTATION_MCP_PERMISSION_MINUTES", 30, low=0.1)
"""How long `permission_prompt` waits for a person, where its address names no deadline."""
WAYSTATION_LANGGRAPH = env.reach("WAYSTATION_LANGGRAPH")
"""Whether `/langgraph` is served (docs/how-to/langgraph-clients.md), and to whom."""
WAYSTATION_LANGGRAPH_ORIGINS = env.items("WAYSTATION_LANGGRAPH_ORIGINS")
"""Origins, such as `https://ui.example`, whose pages may speak to `/langgraph`, with a token."""
WAYSTATION_EXTEND = env.number("WAYSTATION_EXTEND", 1)
"""How far people may move a deadline: so many times as long as the question was given at first; 0
is not at all.
"""
WAYSTATION_URL = env.base_url("WAYSTATION_URL", "http://localhost:8000")
"""Where people reach this server: what links in mails and messages begin with.

A path behind the host is fine.
"""
WAYSTATION_OUTBOUND_ALLOW = [entry.lower() for entry in env.items("WAYSTATION_OUTBOUND_ALLOW")]
"""Hosts (`hooks.internal`, `*.internal`), addresses and networks that webhooks may reach though
they are not public, also without TLS.
"""
WAYSTATION_FETCH_ALLOW = [entry.lower() for entry in env.items("WAYSTATION_FETCH_ALLOW")]
"""The same for the agents' tool `fetch`, which reads pages: apart, since who may be told is not who
may be read.
"""
WAYSTATION_OUTBOUND_TRIES = int(env.number("WAYSTATION_OUTBOUND_TRIES", 10, low=1))
"""How often a message is tried before it is given up."""
WAYSTATION_OUTBOUND_SECONDS = env.number("WAYSTATION_OUTBOUND_SECONDS", 10, low=1)
"""How long a receiver may take."""
WAYSTATION_CHAT_SERVICES = env.items(
    "WAYSTATION_CHAT_SERVICES",
    "slack,workflows,discord,gchat,tgram,webex,wxteams,zulip,pover,pbul,opsgenie,pagerduty",
)
"""Services of Apprise that may be used.

Those whose host its address names, such as `mmosts` or `ntfys`, are for operators to add.
"""
WAYSTATION_LINK_DAYS = env.number("WAYSTATION_LINK_DAYS", 7, low=0.01)
"""How long a link in a mail leads to its question."""
WAYSTATION_REPLY_ADDRESS = env.reply_address("WAYSTATION_REPLY_ADDRESS")
"""Where replies to mails arrive, `reply@example.org` (which must take `reply+…@` too) or
`@replies.example.org`. Empty: replies are not read (docs/how-to/answer-by-mail.md).
"""
WAYSTATION_REPLY_SECRETS = env.items("WAYSTATION_REPLY_SECRETS")
"""Secrets (`whsec_…`) that whoever hands over mails signs with: any of them."""
WAYSTATION_REPLY_MAILBOX = env.mailbox("WAYSTATION_REPLY_MAILBOX")
"""A mailbox whose unseen mails are read each minute: `imaps://user:password@host:993/INBOX`."""
WAYSTATION_REPLY_AUTHSERV = env.text("WAYSTATION_REPLY_AUTHSERV").strip()
"""The name by which your mail server marks what it verified (`Authentication-Results`). With it a
reply takes `dmarc=pass`, and may answer questions of normal risk too.
"""
WAYSTATION_SLACK_SIGNING_SECRET = env.text("WAYSTATION_SLACK_SIGNING_SECRET").strip()
"""The signing secret of your Slack app: what people press there is taken with it alone."""
WAYSTATION_SLACK_TOKEN = env.text("WAYSTATION_SLACK_TOKEN").strip()
"""The bot token (`xoxb-…`) of your Slack app, which posts questions (docs/how-to/slack.md)."""
WAYSTATION_SLACK_API = env.base_url("WAYSTATION_SLACK_API", "https://slack.com/api")
WAYSTATION_TEAMS_SECRETS = env.items("WAYSTATION_TEAMS_SECRETS")
"""Security tokens of outgoing webhooks of Teams, in base64: any of them (docs/how-to/teams.md)."""
WAYSTATION_TELEGRAM_TOKEN = env.text("WAYSTATION_TELEGRAM_TOKEN").strip()
"""The token of your bot (`123456:ABC…`), which posts questions (docs/how-to/telegram.md)."""
WAYSTATION_TELEGRAM_SECRET = env.bearer("WAYSTATION_TELEGRAM_SECRET")
"""The `secret_token` of the bot's webhook: what Telegram sends is taken with it alone."""
WAYSTATION_TELEGRAM_API = env.base_url("WAYSTATION_TELEGRAM_API", "https://api.telegram.org")
WAYSTATION_DECISIONS = "hitl.decisions.approvals.DecisionRows"
"""Who is asked what people decided, whenever a run acts on it: a class like
`runs.engine.decisions.records.Decisions`.
"""
WAYSTATION_PASSES = "hitl.decisions.closing.by_workflow"
"""What answers a question for a step that passes its review: a function of the question's key and
the step's reason, called in the transaction that asks it.
"""
env.refuse_former()
WAYSTATION_OIDC_ISSUER = env.text("WAYSTATION_OIDC_ISSUER").strip().rstrip("/")
"""The OpenID Connect provider that people log in by, `https://login.example.org`; "" for none."""
WAYSTATION_OIDC_CLIENT_ID = env.text("WAYSTATION_OIDC_CLIENT_ID").strip()
WAYSTATION_OIDC_NAME = env.text("WAYSTATION_OIDC_NAME", "single sign-on")
"""What the login page calls it."""
WAYSTATION_OIDC_GROUPS_CLAIM = env.text("WAYSTATION_OIDC_GROUPS_CLAIM", "groups")
"""The claim that holds somebody's groups there."""
WAYSTATION_OIDC_SCOPES = env.items("WAYSTATION_OIDC_SCOPES", "openid,profile,email")
WAYSTATION_SAML_ISSUER = env.text("WAYSTATION_SAML_ISSUER").strip()
"""The entity id of the SAML identity provider that people log in by; "" for none."""
WAYSTATION_SAML_METADATA = env.text("WAYSTATION_SAML_METADATA").strip()
"""Where its metadata is read: an `https://` address, or the path of a file."""
WAYSTATION_SAML_NAME = env.text("WAYSTATION_SAML_NAME", "single sign-on (SAML)")
"""What the login page calls it."""
WAYSTATION_SAML_GROUPS_ATTRIBUTE = env.text("WAYSTATION_SAML_GROUPS_ATTRIBUTE", "groups")
"""The attribute that holds somebody's groups there."""
WAYSTATION_SAML_SUBJECT_ATTRIBUTE = env.text("WAYSTATION_SAML_SUBJECT_ATTRIBUTE").strip()
"""The attribute that says who somebody is, and never somebody else; "": subject-id, else the
NameID.
"""
WAYSTATION_SAML_KEY = env.text("WAYSTATION_SAML_KEY").strip()
"""The path of our own private key, PEM of RSA: it signs what we ask the SAML provider, and reads
assertions that are encrypted for us; "" for none.
"""
WAYSTATION_SAML_CERTIFICATE = env.text("WAYSTATION_SAML_CERTIFICATE").strip()
"""The path of that key's certificate, PEM; our metadata hands it to the provider."""
WAYSTATION_SSO_ALLOWED_GROUPS = env.items("WAYSTATION_SSO_ALLOWED_GROUPS")
"""Who has one of these values may log in by a provider; empty: whoever the provider knows."""
WAYSTATION_SSO_SESSION_HOURS = env.number("WAYSTATION_SSO_SESSION_HOURS", 12, low=0.1)
"""How long a login by a provider lasts: then it is asked again, and its groups with it."""
WAYSTATION_SSO_LINK = env.items("WAYSTATION_SSO_LINK")
"""Providers, `oidc` and `saml`, whose first login of somebody opens the account that has the mail
address for which they vouch; of others it is refused, with words what to do.
"""
WAYSTATION_PASSWORDS = env.one_of("WAYSTATION_PASSWORDS", "everyone", "break-glass")
"""Who logs in by a password: everybody who has one, or the accounts of WAYSTATION_BREAK_GLASS
alone.
"""
WAYSTATION_BREAK_GLASS = env.items("WAYSTATION_BREAK_GLASS")
"""Accounts that log in by their passwords whatever WAYSTATION_PASSWORDS says, for the day on which
the provider is away.
"""
WAYSTATION_STEP_UP = env.one_of("WAYSTATION_STEP_UP", "enrolled", "everyone", "off")
"""Who proves a fresh second factor before a question of high risk lets its run go on: who has set
one up, everybody (who has none answers no such question), or nobody.
"""
WAYSTATION_STEP_UP_SECONDS = int(env.number("WAYSTATION_STEP_UP_SECONDS", 300, low=30))
"""How long a proven factor counts as fresh."""
WAYSTATION_SECOND_FACTORS = ""
"""How people prove one: a class like `hitl.identity.factors.SecondFactors`. The shipped project has
allauth's; a project without one has no second factors.
"""
WAYSTATION_PASSWORD_RESETS = ""
"""Who writes the mails for forgotten passwords: a class like
`hitl.outbound.accounts.PasswordResets`. The shipped project has allauth's; a project without one
sends none.
"""
WAYSTATION_SWEEP_SECONDS = env.number("WAYSTATION_SWEEP_SECONDS", 5, low=0.5)
WAYSTATION_METRICS_TOKEN = env.bearer("WAYSTATION_METRICS_TOKEN")
"""Whoever sends it as a bearer token may read `/metrics`."""
WAYSTATION_METRICS_ALLOW = env.networks("WAYSTATION_METRICS_ALLOW")
"""Addresses and networks from which `/metrics` may be read without it; without both nobody may."""
WAYSTATION_COMMIT = env.text("WAYSTATION_COMMIT")
"""The commit of git that this was made from, where no repository lies around it."""


def repositories(data: Path) -> list[Path]:
    """WAYSTATION_REPOSITORIES: folders in which local repositories may lie; work orders reach no
    other local path.
    """
    return [*_folders("WAYSTATION_REPOSITORIES"), data / "sample"]


def shared(data: Path) -> Path:
    """WAYSTATION_SHARED: the folder that all workers see: what workflows read and keep outside
    their runs, such as master data and the ledger of `smart-booking`.
    """
    return Path(env.text("WAYSTATION_SHARED", str(data / "shared"))).resolve()


def files(data: Path) -> list[Path]:
    """WAYSTATION_FILES: folders of files that a work order may name by path; it reaches no
    other.
    """
    return [*_folders("WAYSTATION_FILES"), data / "inbox"]


def _folders(name: str) -> list[Path]:
    return [Path(folder).expanduser() for folder in env.items(name, separator=":")]


def fill(settings: Any) -> None:
    """Set what a project left out; what it set itself stays.

    WAYSTATION_DATA is the folder `data` below the one that it was started in.
    """
    data = Path(
        getattr(settings, "WAYSTATION_DATA", "") or env.text("WAYSTATION_DATA") or "data"
    ).resolve()
    mask = os.umask(0o077)
    os.umask(mask)
    others = {
        "WAYSTATION_DATA": data,
        "WAYSTATION_REPOSITORIES": repositories(data),
        "WAYSTATION_SHARED": shared(data),
        "WAYSTATION_FILES": files(data),
        "WAYSTATION_UMASK_OUTSIDE": mask,
        "NUM_PROXIES": 0,
        "REDIS_URL": "",
    }
    known = {name: value for name, value in globals().items() if name.startswith("WAYSTATION_")}
    for name, value in {**known, **others}.items():
        if not hasattr(settings, name):
            setattr(settings, name, value)
