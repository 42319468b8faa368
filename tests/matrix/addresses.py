"""Who may do what at which address.

An address that is not here makes `test_every_address_is_in_the_table` fail.

To add one, add a line: `"pauses/<pse:pause_id>/claim": own("POST"),`

- `public("GET")`: anybody.
- `login("GET")`: whoever is logged in, or sends a token; it shows and changes only what is theirs.
- `own("GET POST")`: speaks of one thread, order, run, question or checkpoint; for those who see it,
  404 for all others.
- `operator("x.y")`: holders of that right, 403 for all others.
- `Address("owner", …)`: who made it, 404 for all others.
- `signed("POST")`: whoever signs what they send, 401 for all others, whoever they are.

`needs={"PUT": "x.y"}` asks for a right for one method. `body` is what is posted, `done` the state
of tests/matrix/world.py in which that is not only allowed but done. An argument of a new name gets
its id in tests/matrix/world.py: per state in `ids_of`, or in `World.shared`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

API = "api/v1/"
PRINTED = "api/agent-work-orders/"
"""Where S4 has its addresses: `hitl.api.printed_urls`."""
ORDERS = PRINTED.rstrip("/")
REST = (API, ORDERS)
METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
SAFE = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True)
class Address:
    who: str
    methods: frozenset[str]
    body: Mapping[str, Any] = field(default_factory=dict)
    needs: Mapping[str, str] = field(default_factory=dict)
    sparse: bool = False
    """Also for those who see the rest there may be nothing: a patch, an earlier revision."""
    whole: bool = False
    """Holders of its right see what is everybody's, as in the admin."""
    refused: str = ""
    """How who sees it may be refused all the same: an answer is taken back by who gave it."""
    remembers: bool = False
    """Its page keeps in the session what its form is about, such as a secret that is shown."""
    also: str = ""
    """A right whose holders may too, without seeing it."""
    unwell: bool = False
    """503 is one of its answers."""
    done: str = ""
    """The state in which a POST of `body` does it: answered 2xx or 3xx, and something is
    written.
    """


def _maker(who: str) -> Any:
    def make(
        methods: str = "",
        *,
        body: Mapping[str, Any] | None = None,
        needs: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Address:
        named = set(methods.split())
        return Address(
            who,
            frozenset(named | ({"HEAD"} if "GET" in named else set())),
            body or {},
            needs or {},
            **more,
        )

    return make


public, login, own, signed = _maker("public"), _maker("login"), _maker("own"), _maker("signed")


def operator(right: str, methods: str, *, post: str = "", **more: bool) -> Address:
    needs = dict.fromkeys((*methods.split(), "HEAD", "OPTIONS"), right)
    made: Address = login(methods, needs=needs | ({"POST": post} if post else {}), **more)
    return made


YES, YES_BY_FORM = {"decision": "approve"}, {"action": "approve"}
WHY = {"reason": "why not"}
DECISION, DELIVERY, ENDPOINT, TURN = (
    "<dec:decision_id>",
    "<dlv:delivery_id>",
    "<end:endpoint_id>",
    "<trn:turn_id>",
)
SAID = {"text": "Is the date right?"}
HANDED = {"to": "ben", "reason": "away"}
LOWER = {"priority": -1}
SCHEDULE, START, COMMENT = "<sch:schedule_id>", "<ist:start_id>", "<cmt:comment_id>"
VIEW = "<view:view_id>"
BATCH = "<bat:batch_id>"
ORDER, PAUSE, THREAD, RUN, CHECKPOINT = (
    "<wo:order_id>",
    "<pse:pause_id>",
    "<thr:thread_id>",
    "<run:run_id>",
    "<ckpt:checkpoint_id>",
)

ADDRESSES: dict[str, Address] = {
    "": login("GET"),
    "rows": login("GET"),
    "filters/<slug:listed>": login("GET"),
    "work-orders/": login("GET"),
    "work-orders/new": login("GET POST", body={"template": "writing"}, done="paused"),
    f"work-orders/{ORDER}/": own("GET"),
    f"work-orders/{ORDER}/picture": own("GET"),
    f"work-orders/{ORDER}/why": own("GET"),
    f"work-orders/{ORDER}/cancel": own("GET POST", done="paused"),
    f"work-orders/{ORDER}/suspend": own("GET POST", done="running"),
    f"work-orders/{ORDER}/retry": own("POST", done="failed"),
    f"work-orders/{ORDER}/again": own("POST", done="failed"),
    f"work-orders/{ORDER}/priority": own("GET POST", body=LOWER, refused="403"),
    f"pauses/{PAUSE}/decide": own("POST", body=YES_BY_FORM, done="paused"),
    f"pauses/{PAUSE}/patch": own("GET", sparse=True),
    f"pauses/{PAUSE}/files": own("GET", sparse=True),
    f"pauses/{PAUSE}/look": own("POST", body={"view": "split"}),
    f"pauses/{PAUSE}/changes": own("GET", sparse=True),
    f"pauses/{PAUSE}/cancel": own("GET"),
    f"pauses/{PAUSE}/next": own("GET"),
    f"pauses/{PAUSE}/edits": own("GET", sparse=True),
    f"pauses/{PAUSE}/claim": own("POST", done="paused"),
    f"pauses/{PAUSE}/release": own("POST"),
    f"pauses/{PAUSE}/extend": own("POST", body=WHY),
    f"pauses/{PAUSE}/snooze": own("POST", body={"hours": "1"}, done="paused"),
    f"pauses/{PAUSE}/comment": own("POST", body=SAID, done="paused"),
    f"pauses/{PAUSE}/seen": own("POST", body={"file": "0" * 64}, refused="404"),
    f"pauses/{PAUSE}/hand-over": own("POST", body=HANDED, refused="422"),
    f"comments/{COMMENT}/withdraw": Address("owner", frozenset({"POST"})),
    "several": login("GET POST", body={"action": "approve"}),
    "decisions/": login("GET"),
    f"decisions/{DECISION}/": own("GET"),
    f"decisions/{DECISION}/undo": own("POST", refused="403"),
    "tools/": login("GET"),
    "views/": login(
        "GET POST", body={"list": "orders", "name": "Failed", "query": "q=x"}, done="paused"
    ),
    f"views/{VIEW}/do": Address("owner", frozenset({"POST"})),
    "delegations/": login("GET POST"),
    "delegations/<int:delegation_id>/end": Address("owner", frozenset({"POST"})),
    "operations/": operator("runs.view_run", "GET", whole=True),
    "operations/failures/": operator("runs.view_run", "GET", whole=True),
    "operations/failures/retry": operator("runs.change_run", "GET"),
    "operations/batches/new": operator("runs.change_run", "GET POST"),
    f"operations/batches/{BATCH}/": operator("runs.view_run", "GET", whole=True),
    "operations/code/": operator("runs.view_run", "GET", whole=True),
    "operations/sweep": operator("runs.change_run", "POST"),
    f"operations/failures/{RUN}/": operator("runs.view_run", "GET", whole=True, sparse=True),
    f"operations/{RUN}/send-again": operator("runs.change_run", "POST"),
    f"operations/{RUN}/accept-code": operator("runs.change_run", "POST"),
    "tokens/": login(
        "GET POST", body={"name": "mine", "scope": "read", "days": "30"}, done="paused"
    ),
    "tokens/connect": login(
        "GET POST", body={"name": "bot", "scope": "ask", "team": "", "days": "30"}, done="paused"
    ),
    "tokens/<uuid:token_id>/revoke": Address("owner", frozenset({"POST"})),
    "templates/": login("GET"),
    "templates/steps/<slug:slug>/texts": login("GET POST", needs={"POST": "runs.add_steptemplate"}),
    "templates/<slug:slug>/": login("GET POST", needs={"POST": "runs.add_template"}),
    "templates/new": login(
        "GET POST", needs=dict.fromkeys(("GET", "HEAD", "POST"), "runs.add_template")
    ),
    "templates/<slug:slug>/versions": login("GET"),
    "templates/<slug:slug>/dry-run": login("GET POST"),
    "templates/<slug:slug>/do": login(
        "POST", body={"do": "on"}, needs={"POST": "runs.change_templateaccess"}
    ),
    "templates/steps": login("GET"),
    "templates/steps/new": login(
        "GET POST", needs=dict.fromkeys(("GET", "HEAD", "POST"), "runs.add_steptemplate")
    ),
    "templates/steps/<slug:slug>/": login("GET POST", needs={"POST": "runs.add_steptemplate"}),
    "templates/steps/<slug:slug>/versions": login("GET"),
    "templates/steps/<slug:slug>/do": login("POST", needs={"POST": "runs.add_steptemplate"}),
    "deliveries/": login("GET"),
    f"deliveries/{DELIVERY}/again": own("POST"),
    "notifications/": login("GET POST", body={"channel": "nothing"}),
    "notifications/mail": login("POST"),
    "keys": login("POST", body={"single_keys": "off"}),
    "welcome": login("POST"),
    "notifications/chats": login("GET POST", body={"do": "code"}),
    f"notifications/{ENDPOINT}": own("POST", body={"do": "nothing"}),
    "l/<str:token>": Address("anybody", frozenset({"GET", "HEAD", "POST"})),
    "inbound/": login("GET POST", needs={"POST": "hitl.add_inboundstart"}),
    f"inbound/{START}/": Address("owner", frozenset({"GET", "HEAD"})),
    f"inbound/{START}/do": Address("owner", frozenset({"POST"})),
    "limits/": login("GET POST", needs={"POST": "runs.add_template"}),
    "limits/<int:limit_id>/": login("GET POST", needs={"POST": "runs.add_template"}),
    "schedules/": login("GET"),
    "schedules/new": login(
        "GET POST", needs=dict.fromkeys(("GET", "HEAD", "POST"), "runs.add_schedule")
    ),
    f"schedules/{SCHEDULE}/": Address("owner", frozenset({"GET", "HEAD", "POST"})),
    f"schedules/{SCHEDULE}/do": Address("owner", frozenset({"POST"})),
    "threads/": login("GET POST", body={"title": "New"}, done="paused"),
    f"threads/{THREAD}/": own("GET"),
    f"threads/{THREAD}/say": own("POST", body={"text": "APPROVE"}, done="talking"),
    f"threads/{THREAD}/resume": own("POST", done="talking"),
    f"threads/{THREAD}/edit": own("POST", body={"message": "msg_x", "text": "Anew"}),
    f"threads/{THREAD}/busy": own("POST", body={"when_busy": "queue"}, done="talking"),
    f"threads/{THREAD}/queue/{TURN}/withdraw": own("POST"),
    f"threads/{THREAD}/suspend": own("GET POST"),
    f"threads/{THREAD}/cancel": own("GET POST", done="talking"),
    f"threads/{THREAD}/history": own("GET"),
    f"threads/{THREAD}/log": own("GET"),
    f"threads/{THREAD}/log/download": own("GET"),
    "checkpoints/compare": login("GET"),
    f"checkpoints/{CHECKPOINT}/": own("GET"),
    f"checkpoints/{CHECKPOINT}/resume": own("GET POST", body=WHY, done="failed"),
    "artifacts/<art:artifact_id>": own("GET", sparse=True),
    "uploads/<upl:upload_id>": Address("owner", frozenset({"GET", "HEAD"})),
    "login": public("GET POST PUT"),
    "logout": public("POST"),
    "language": public("POST"),
    "words.js": public("GET"),
    # sends on to the login who has not said a password
    "login/factor": public("GET POST"),
    "login/closed": public("GET"),
    "login/elsewhere": Address("anybody", frozenset({"GET", "HEAD"})),  # 404 without a provider
    "login/elsewhere/back": Address("anybody", frozenset({"GET", "HEAD"})),
    "login/elsewhere/ended": Address("anybody", frozenset({"POST"})),
    "login/saml": Address("anybody", frozenset({"GET", "HEAD"})),
    "login/saml/back": Address("anybody", frozenset({"POST"})),
    "login/saml/finish": Address("anybody", frozenset({"GET", "HEAD"})),
    "login/saml/metadata": Address("anybody", frozenset({"GET", "HEAD"})),
    # who is logged in goes on, or has no business there
    "admin/login/": Address("anybody", frozenset({"GET", "HEAD", "POST"})),
    "password/forgotten": public("GET POST"),
    "password/forgotten/sent": public("GET"),
    "password/forgotten/<str:uidb36>/<str:key>": public("GET POST"),
    "password/changed": public("GET"),
    "account/": login("GET"),
    **dict.fromkeys(
        (
            "account/password",
            "account/confirm",
            "account/confirm/code",
            "account/confirm/key",
            "account/app/remove",
            "account/codes/new",
        ),
        login("GET POST", sparse=True),
    ),
    "account/elsewhere": login("GET"),
    "account/elsewhere/oidc": login("GET", sparse=True),
    "account/elsewhere/saml": login("GET", sparse=True),
    "account/elsewhere/<int:pk>/remove": login("POST", sparse=True),
    "account/app": login("GET POST", sparse=True, remembers=True),
    "account/keys/add": login("GET POST", sparse=True, remembers=True),
    "account/codes": login("GET", sparse=True),
    "account/codes/file": login("GET", sparse=True),
    "account/keys": login("GET"),
    # asks for the password first, and then finds none of this person's
    "account/keys/<int:pk>/remove": login("GET POST", sparse=True),
    "account/keys/<int:pk>/name": login("GET POST", sparse=True),
    "livez": public("GET"),
    # 503 where a part is not well
    "readyz": Address("anybody", frozenset({"GET", "HEAD"}), unwell=True),
    # nobody without a token or an address of the settings: tests/hitl/operations/test_metrics.py
    "metrics": Address("anybody", frozenset({"GET", "HEAD"})),
    "favicon.ico": public("GET POST PUT PATCH DELETE OPTIONS"),
    "api/schema/": public("GET"),
    "api/reference/": public("GET"),
    f"{API}work-orders": login("GET POST", body={"template": "writing"}, done="paused"),
    f"{API}work-orders/{ORDER}": own("GET"),
    f"{API}work-orders/{ORDER}/time": own("GET"),
    f"{API}work-orders/{ORDER}/pause-state": own("GET"),
    f"{API}work-orders/{ORDER}/artifacts": own("GET"),
    f"{API}artifacts/<art:artifact_id>": own("GET", sparse=True),
    f"{API}artifacts/<art:artifact_id>/content": own("GET", sparse=True),
    f"{API}work-orders/{ORDER}/resume": own("POST", body=YES, done="paused"),
    f"{API}work-orders/{ORDER}/cancel": own("POST", done="paused"),
    f"{API}work-orders/{ORDER}/retry": own("POST", done="failed"),
    f"{API}work-orders/{ORDER}/again": own("POST", done="failed"),
    f"{API}work-orders/{ORDER}/priority": own("POST", body=LOWER, refused="403"),
    f"{API}work-orders/{ORDER}/erasure": operator(
        "checkpoints.erase_thread", "GET POST", whole=True
    ),
    f"{API}work-orders/{ORDER}/suspend": own("POST", done="running", also="runs.change_run"),
    f"{API}templates/workflows": login("GET"),
    f"{API}templates/workflows/<slug:slug>": login("GET PUT", needs={"PUT": "runs.add_template"}),
    f"{API}templates/steps/<slug:slug>": login("GET PUT", needs={"PUT": "runs.add_steptemplate"}),
    f"{API}templates/workflows/<slug:slug>/versions": login("GET"),
    f"{API}templates/workflows/<slug:slug>/versions/<int:version>": login("GET"),
    f"{API}templates/workflows/<slug:slug>/differences": login("GET"),
    f"{API}templates/workflows/<slug:slug>/copies": login(
        "POST", body={"slug": "copied"}, needs={"POST": "runs.add_template"}
    ),
    f"{API}templates/workflows/<slug:slug>/enabled": login(
        "PUT", body={"enabled": True}, needs={"PUT": "runs.change_templateaccess"}
    ),
    f"{API}templates/workflows/<slug:slug>/dry-run": login("POST", body={"request": "x"}),
    f"{API}templates/workflows/<slug:slug>/take-over": login(
        "PUT", body={"version": 1}, needs={"PUT": "runs.add_template"}
    ),
    f"{API}templates/steps": login("GET"),
    f"{API}templates/steps/<slug:slug>/versions": login("GET"),
    f"{API}templates/steps/<slug:slug>/versions/<int:version>": login("GET"),
    f"{API}templates/steps/<slug:slug>/differences": login("GET"),
    f"{API}templates/steps/<slug:slug>/take-over": login(
        "PUT", body={"version": 1}, needs={"PUT": "runs.add_steptemplate"}
    ),
    f"{API}templates/functions": login("GET"),
    f"{API}templates/functions/<str:name>": login("GET"),
    f"{API}inbound/<slug:source>/start": signed("POST"),
    f"{API}inbound-starts": login("GET POST", needs={"POST": "hitl.add_inboundstart"}),
    f"{API}inbound-starts/{START}": Address("owner", frozenset({"GET", "HEAD", "PATCH", "DELETE"})),
    f"{API}inbound-starts/{START}/secret": Address("owner", frozenset({"POST"})),
    f"{API}inbound-starts/{START}/deliveries": Address("owner", frozenset({"GET", "HEAD"})),
    f"{API}limits": login("GET POST", needs={"POST": "runs.add_template"}),
    f"{API}limits/<int:limit_id>": login(
        "GET PATCH DELETE", needs=dict.fromkeys(("PATCH", "DELETE"), "runs.add_template")
    ),
    f"{API}batches": login(
        "GET POST",
        needs={
            "GET": "runs.view_run",
            "HEAD": "runs.view_run",
            "POST": "runs.change_run",
            "OPTIONS": "runs.view_run",
        },
        whole=True,
    ),
    f"{API}batches/preview": operator("runs.change_run", "POST"),
    f"{API}batches/{BATCH}": operator("runs.view_run", "GET", whole=True),
    f"{API}views": login("GET POST", body={"list": "orders", "name": "x"}, done="paused"),
    f"{API}views/{VIEW}": Address("owner", frozenset({"GET", "HEAD", "PATCH", "DELETE"})),
    f"{API}schedules": login("GET POST", needs={"POST": "runs.add_schedule"}),
    f"{API}schedules/preview": login("POST", body={"cron": "30 2 * * *"}),
    f"{API}schedules/{SCHEDULE}": Address("owner", frozenset({"GET", "HEAD", "PATCH", "DELETE"})),
    f"{API}schedules/{SCHEDULE}/start": Address("owner", frozenset({"POST"})),
    f"{API}schedules/{SCHEDULE}/occurrences": Address("owner", frozenset({"GET", "HEAD"})),
    f"{API}tools": login("GET"),
    f"{API}tools/definitions": login("GET"),
    f"{API}tools/explain": login("POST", body={"tool": "clock"}),
    f"{API}threads": login("GET POST", done="paused"),
    f"{API}threads/import": operator("checkpoints.import_thread", "POST"),
    f"{API}threads/{THREAD}": own("GET PATCH", body={"when_busy": "queue"}),
    f"{API}threads/{THREAD}/erasure": operator("checkpoints.erase_thread", "GET POST", whole=True),
    f"{API}threads/{THREAD}/messages": own("GET"),
    f"{API}threads/{THREAD}/queue": own("GET"),
    f"{API}threads/{THREAD}/queue/{TURN}": own("DELETE"),
    f"{API}threads/{THREAD}/artifacts": own("GET"),
    f"{API}threads/{THREAD}/state": own("GET", sparse=True),
    f"{API}threads/{THREAD}/export": own("GET"),
    f"{API}threads/{THREAD}/history": own("GET"),
    f"{API}threads/{THREAD}/branches": own("GET"),
    f"{API}threads/{THREAD}/events": own("GET"),
    f"{API}threads/{THREAD}/runs": own(
        "GET POST", body={"input": "APPROVE", "template": "writing"}, done="talking"
    ),
    f"{API}runs": login("GET"),
    f"{API}runs/{RUN}": own("GET"),
    f"{API}runs/{RUN}/why": own("GET"),
    f"{API}runs/{RUN}/checkpoints": own("GET"),
    f"{API}runs/{RUN}/input": own("POST", body={"content": "APPROVE"}, done="paused"),
    f"{API}runs/{RUN}/resume": own("POST", done="talking"),
    f"{API}runs/{RUN}/cancel": own("POST", done="paused"),
    f"{API}runs/{RUN}/suspend": own("POST", done="running", also="runs.change_run"),
    f"{API}checkpoints/{CHECKPOINT}": own("GET"),
    f"{API}checkpoints/{CHECKPOINT}/diff": own("GET"),
    f"{API}checkpoints/{CHECKPOINT}/events": own("GET"),
    f"{API}checkpoints/{CHECKPOINT}/fork": own("POST", body=WHY, done="failed"),
    f"{API}runs/{RUN}/events": own("GET"),
    f"{API}pauses": login("GET"),
    f"{API}pauses/bulk": login("POST", body={"decision": "nothing"}),
    f"{API}pauses/{PAUSE}/claim": own("POST", done="paused"),
    f"{API}pauses/{PAUSE}/release": own("POST"),
    f"{API}pauses/{PAUSE}/presence": own("GET POST", body={"writing": True}, done="paused"),
    f"{API}pauses/{PAUSE}/comments": own("GET POST", body=SAID, done="paused"),
    f"{API}pauses/{PAUSE}/hand-over": own("POST DELETE", body=HANDED),
    f"{API}comments/{COMMENT}": Address("owner", frozenset({"DELETE"})),
    f"{API}pauses/{PAUSE}/extend": own(
        "POST", body={"until": "2999-01-01T00:00:00Z", "reason": "x"}
    ),
    f"{API}pauses/{PAUSE}/snooze": own("POST", body={"until": "2999-01-01T00:00:00Z"}),
    f"{API}decisions": login("GET"),
    f"{API}decisions/{DECISION}": own("GET"),
    f"{API}decisions/{DECISION}/undo": own("POST", refused="403"),
    f"{API}ledger": login("GET"),
    f"{API}endpoints": login("GET POST", body={"channel": "nothing"}),
    f"{API}endpoints/{ENDPOINT}": own("GET PATCH DELETE"),
    f"{API}endpoints/{ENDPOINT}/secret": own("POST"),
    f"{API}endpoints/{ENDPOINT}/test": own("POST"),
    f"{API}deliveries": login("GET"),
    f"{API}deliveries/{DELIVERY}": own("GET"),
    f"{API}deliveries/{DELIVERY}/again": own("POST"),
    f"{API}workflows": login("GET"),
    f"{API}workflows/wait/counts": login("GET"),
    f"{API}workflows/wait": login("POST", body={"run_id": "wait"}),
    f"{API}workflows/<str:run_id>": own("GET"),
    f"{API}workflows/<str:run_id>/resume": own("POST", body={"payload": "approve"}, done="paused"),
    f"{API}workflows/<str:run_id>/resume-and-continue": own(
        "POST", body={"payload": "approve"}, done="paused"
    ),
    f"{API}workflows/<str:run_id>/status": own("POST", body={"status": "completed"}),
    f"{API}resume": login("POST"),
    f"{API}inbound/<slug:source>": signed("POST"),
    "manifest.webmanifest": public("GET"),
    **{f"{API}channels/{name}": signed("POST") for name in ("mail", "slack", "teams", "telegram")},
    f"{API}channels/<slug:name>": Address("anybody", frozenset()),
    f"{API}pauses/{PAUSE}": own("GET"),
    f"{API}pauses/{PAUSE}/decisions": own("POST", body=YES, done="talking"),
    f"{API}repositories": operator(
        "runs.change_repository", "GET POST", post="runs.add_repository"
    ),
    f"{API}repositories/<repo:repository_id>": operator("runs.change_repository", "GET PUT"),
    f"{API}repositories/<repo:repository_id>/template-execution": operator(
        "runs.change_repository", "PUT"
    ),
    API: Address("nowhere", frozenset()),
    ORDERS: login("GET POST", body={"template": "writing"}, done="paused"),
    PRINTED: login("GET POST", body={"template": "writing"}, done="paused"),
    f"{PRINTED}{ORDER}": own("GET"),
    f"{PRINTED}{ORDER}/pause-state": own("GET"),
    f"{PRINTED}{ORDER}/resume": own("POST", body=YES, done="paused"),
    f"{PRINTED}templates/workflows/<slug:slug>": login(
        "GET PUT", needs={"PUT": "runs.add_template"}
    ),
    f"{PRINTED}repositories": operator(
        "runs.change_repository", "GET POST", post="runs.add_repository"
    ),
    f"{PRINTED}repositories/<repo:repository_id>/template-execution": operator(
        "runs.change_repository", "PUT"
    ),
    f"{PRINTED}.": Address("nowhere", frozenset()),
}
"""Address as the resolver writes it → who may what.

The last one is every other address below it: a 404.
"""


def twin(path: str) -> str:
    """The address below /api/v1/ that one of PRINTED is the same as; every other path is its
    own.
    """
    rest = path.removeprefix(ORDERS).lstrip("/")
    if not path.startswith(ORDERS) or rest == ".":
        return path
    return API + (
        rest
        if rest.startswith(("templates/", "repositories/"))
        else f"work-orders/{rest}".rstrip("/")
    )


def served(
    resolver: Any = None, prefix: str = "", namespaces: tuple[str, ...] = ()
) -> Iterator[tuple[str, str, bool]]:
    """Every address of the project: its pattern, the name of its view, and whether it is the
    admin's.
    """
    for entry in (resolver or get_resolver()).url_patterns:
        path = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from served(entry, path, (*namespaces, entry.namespace or ""))
        elif isinstance(entry, URLPattern):
            yield path, entry.name or "", "admin" in namespaces
