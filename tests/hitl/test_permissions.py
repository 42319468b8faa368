"""Who may reach what: every address of the product, walked by every kind of visitor. A new address fails until it is listed here."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass, field

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone

from hitl import delegations, services
from hitl.models import ApiToken, Via
from runs import threads as turns
from runs.engine.advance import advance
from runs.models import Repository
from tests.conftest import drive, pause_of
from tests.databases import rows
from tests.hitl.test_undo import patient_template

pytestmark = pytest.mark.django_db

SAFE = {"GET", "HEAD", "OPTIONS"}
METHODS = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"]
API = "api/v1/"


@dataclass(frozen=True)
class Address:
    """What an address serves. `own` says that it shows something that belongs to somebody."""

    methods: set[str]
    own: bool = False
    public: bool = False
    body: dict[str, str] = field(default_factory=dict, hash=False)


NO_ANSWERS = ("retry", "suspend", "fork", "ckpt:checkpoint_id>/resume", "extend", "snooze", "undo")
"""Ends of addresses that take a POST and answer no question."""
THREAD, RUN, DECISION = "thr:thread_id", "run:run_id", "dec:decision_id"
ORDER, PAUSE, REPOSITORY, CHECKPOINT, REPLY = (
    "wo:order_id",
    "pse:pause_id",
    "repo:repository_id",
    "ckpt:checkpoint_id",
    {"decision": "approve", "action": "approve"},
)
KNOWN = {
    "": Address({"GET", "HEAD"}),
    "work-orders/": Address({"GET", "HEAD"}),
    "work-orders/new": Address({"GET", "HEAD", "POST"}, body={"template": "nothing", "repository_url": ""}),
    f"work-orders/<{ORDER}>/": Address({"GET", "HEAD"}, own=True),
    f"work-orders/<{ORDER}>/cancel": Address({"GET", "HEAD", "POST"}, own=True),
    f"work-orders/<{ORDER}>/suspend": Address({"POST"}, own=True),
    f"work-orders/<{ORDER}>/retry": Address({"POST"}, own=True),
    f"pauses/<{PAUSE}>/decide": Address({"POST"}, own=True, body=REPLY),
    f"pauses/<{PAUSE}>/patch": Address({"GET", "HEAD"}, own=True),
    f"pauses/<{PAUSE}>/changes": Address({"GET", "HEAD"}, own=True),
    f"pauses/<{PAUSE}>/cancel": Address({"GET", "HEAD"}, own=True),
    f"pauses/<{PAUSE}>/claim": Address({"POST"}, own=True),
    f"pauses/<{PAUSE}>/release": Address({"POST"}, own=True),
    f"pauses/<{PAUSE}>/edits": Address({"GET", "HEAD"}, own=True),
    "delegations/": Address({"GET", "HEAD", "POST"}),
    "delegations/<int:delegation_id>/end": Address({"POST"}, own=True),
    f"pauses/<{PAUSE}>/extend": Address({"POST"}, own=True),
    f"pauses/<{PAUSE}>/snooze": Address({"POST"}, own=True, body={"hours": "1"}),
    f"decisions/<{DECISION}>/": Address({"GET", "HEAD"}, own=True),
    f"decisions/<{DECISION}>/undo": Address({"POST"}, own=True),
    "several": Address({"GET", "HEAD", "POST"}, body={"action": "approve"}),
    "threads/": Address({"GET", "HEAD", "POST"}),
    f"threads/<{THREAD}>/": Address({"GET", "HEAD"}, own=True),
    f"threads/<{THREAD}>/say": Address({"POST"}, own=True, body={"text": "APPROVE"}),
    f"threads/<{THREAD}>/resume": Address({"POST"}, own=True),
    f"threads/<{THREAD}>/suspend": Address({"POST"}, own=True),
    f"threads/<{THREAD}>/cancel": Address({"GET", "HEAD", "POST"}, own=True),
    "login": Address({"GET", "HEAD", "POST", "PUT"}, public=True),
    "logout": Address({"POST"}, public=True),
    "favicon.ico": Address({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}, public=True),
    "api/schema/": Address({"GET", "HEAD"}, public=True),
    "api/reference/": Address({"GET", "HEAD"}, public=True),
    f"{API}work-orders": Address({"GET", "HEAD", "POST"}, body={"template": "nothing"}),
    f"{API}templates/workflows/<slug:slug>": Address({"GET", "HEAD", "PUT"}),
    f"{API}work-orders/<{ORDER}>": Address({"GET", "HEAD"}, own=True),
    f"{API}work-orders/<{ORDER}>/pause-state": Address({"GET", "HEAD"}, own=True),
    f"{API}work-orders/<{ORDER}>/resume": Address({"POST"}, own=True, body=REPLY),
    f"{API}work-orders/<{ORDER}>/cancel": Address({"POST"}, own=True),
    f"{API}work-orders/<{ORDER}>/retry": Address({"POST"}, own=True),
    f"{API}work-orders/<{ORDER}>/suspend": Address({"POST"}, own=True),
    f"{API}templates/steps/<slug:slug>": Address({"GET", "HEAD", "PUT"}),
    f"{API}threads": Address({"GET", "HEAD", "POST"}),
    f"{API}threads/<{THREAD}>": Address({"GET", "HEAD"}, own=True),
    f"{API}threads/<{THREAD}>/state": Address({"GET", "HEAD"}, own=True),
    f"{API}threads/<{THREAD}>/export": Address({"GET", "HEAD"}, own=True),
    f"{API}threads/import": Address({"POST"}, body={"format": "nothing"}),
    f"{API}threads/<{THREAD}>/history": Address({"GET", "HEAD"}, own=True),
    f"{API}threads/<{THREAD}>/events": Address({"GET", "HEAD"}, own=True),
    f"{API}threads/<{THREAD}>/runs": Address({"GET", "HEAD", "POST"}, own=True, body={"input": "APPROVE"}),
    f"{API}runs": Address({"GET", "HEAD"}),
    f"{API}runs/<{RUN}>/events": Address({"GET", "HEAD"}, own=True),
    f"{API}runs/<{RUN}>": Address({"GET", "HEAD"}, own=True),
    f"{API}runs/<{RUN}>/checkpoints": Address({"GET", "HEAD"}, own=True),
    f"{API}runs/<{RUN}>/input": Address({"POST"}, own=True, body={"content": "APPROVE"}),
    f"{API}runs/<{RUN}>/resume": Address({"POST"}, own=True),
    f"{API}runs/<{RUN}>/cancel": Address({"POST"}, own=True),
    f"{API}runs/<{RUN}>/suspend": Address({"POST"}, own=True),
    f"{API}checkpoints/<{CHECKPOINT}>": Address({"GET", "HEAD"}, own=True),
    f"checkpoints/<{CHECKPOINT}>/": Address({"GET", "HEAD"}, own=True),
    f"checkpoints/<{CHECKPOINT}>/resume": Address({"GET", "HEAD", "POST"}, own=True, body={"reason": "why not"}),
    "checkpoints/compare": Address({"GET", "HEAD"}),
    f"threads/<{THREAD}>/history": Address({"GET", "HEAD"}, own=True),
    f"{API}threads/<{THREAD}>/branches": Address({"GET", "HEAD"}, own=True),
    f"{API}checkpoints/<{CHECKPOINT}>/diff": Address({"GET", "HEAD"}, own=True),
    f"{API}checkpoints/<{CHECKPOINT}>/events": Address({"GET", "HEAD"}, own=True),
    f"{API}checkpoints/<{CHECKPOINT}>/fork": Address({"POST"}, own=True, body={"reason": "why not"}),
    f"{API}pauses": Address({"GET", "HEAD"}),
    f"{API}pauses/<{PAUSE}>": Address({"GET", "HEAD"}, own=True),
    f"{API}pauses/<{PAUSE}>/decisions": Address({"POST"}, own=True, body=REPLY),
    f"{API}pauses/<{PAUSE}>/claim": Address({"POST"}, own=True),
    f"{API}pauses/<{PAUSE}>/release": Address({"POST"}, own=True),
    f"{API}pauses/<{PAUSE}>/extend": Address({"POST"}, own=True, body={"until": "2999-01-01T00:00:00Z", "reason": "x"}),
    f"{API}pauses/<{PAUSE}>/snooze": Address({"POST"}, own=True, body={"until": "2999-01-01T00:00:00Z"}),
    f"{API}pauses/bulk": Address({"POST"}, body={"decision": "nothing"}),
    f"{API}decisions/<{DECISION}>": Address({"GET", "HEAD"}, own=True),
    f"{API}decisions/<{DECISION}>/undo": Address({"POST"}, own=True),
    f"{API}ledger": Address({"GET", "HEAD"}),
    f"{API}repositories": Address({"GET", "HEAD"}),
    f"{API}repositories/<{REPOSITORY}>/template-execution": Address({"PUT"}),
    API: Address(set()),
}
OWN = sorted(path for path, address in KNOWN.items() if address.own)
INNER = sorted(path for path, address in KNOWN.items() if not address.public)


def served(resolver=None, prefix=""):
    """Every address of the project, the admin's apart."""
    for entry in (resolver or get_resolver()).url_patterns:
        path = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver):
            if entry.namespace != "admin":
                yield from served(entry, path)
        elif isinstance(entry, URLPattern):
            yield path


def test_every_address_of_the_product_is_listed_here():
    """F4."""
    assert sorted(set(served())) == sorted(KNOWN)


def tomorrow():
    return timezone.now() + dt.timedelta(days=1)


@pytest.fixture
def talking(templates, ana, team):
    """A run that waits on a thread of Ana's without a work order."""
    thread = turns.open_thread(by=ana, team=team)
    run = turns.invoke(thread.pk, turns.Turn(template="writing", input={}), by=ana)
    advance(run.pk, budget=60)
    return run


@pytest.fixture
def decided(request, make_order, ana):
    """A decision of Ana's that may still be taken back, where the address is one of a decision."""
    if DECISION not in request.node.name:
        return "dec_none"
    order = drive(make_order(patient_template()))
    return services.decide(pause_of(order).pk, action="approve", by=ana, via=Via.PAGE).shown_id


@pytest.fixture
def real(paused, talking, decided, ana, ben):
    """The address with the ids of Ana's order and question, of a decision of hers, and of her thread, in it."""
    repository = Repository.objects.create(name="one", url="/tmp/one")
    ids = {
        f"<{REPOSITORY}>": repository.shown_id,
        f"<{ORDER}>": paused.shown_id,
        f"<{PAUSE}>": pause_of(paused).shown_id,
        f"<{CHECKPOINT}>": pause_of(paused).checkpoint.shown_id,
        f"<{THREAD}>": talking.thread.shown_id,
        f"<{RUN}>": talking.shown_id,
        f"<{DECISION}>": decided,
        "<slug:slug>": "writing",
        "<int:delegation_id>": str(delegations.delegate(ana, to_user=ben, starts_at=timezone.now(), ends_at=tomorrow()).pk),
    }

    def fill(path):
        for name, value in ids.items():
            path = path.replace(name, value)
        return f"/{path}"

    return fill


def browser(user=None):
    client = Client(raise_request_exception=False)
    if user is not None:
        client.force_login(user)
    return client


def send(client, method, path, known):
    if "/api/" in path:
        return client.generic(method, path, json.dumps(known.body), content_type="application/json")
    return client.post(path, known.body) if method == "POST" else client.generic(method, path)


@pytest.mark.parametrize("path", INNER)
def test_a_visitor_who_is_not_logged_in_gets_nothing(real, path):
    """C20: pages send to the login, the API says 401; nothing changes."""
    before = rows()
    for method in METHODS:
        response = send(browser(), method, real(path), KNOWN[path])
        if path.startswith(API):
            assert response.status_code == 401, method
            assert response["WWW-Authenticate"] == "Bearer"
        else:
            assert response.status_code in {302, 405}, method
            assert method not in KNOWN[path].methods or response["Location"].startswith("/login?next=")
    assert rows() == before


@pytest.mark.parametrize("path", OWN)
def test_a_stranger_cannot_tell_it_from_nothing(real, zoe, path):
    """F4: 404 for whatever the address serves, and nothing changes."""
    client = browser(zoe)
    before = rows()
    for method in METHODS:
        response = send(client, method, real(path), KNOWN[path])
        if method in KNOWN[path].methods:
            assert response.status_code == 404, method
        elif method != "OPTIONS":
            assert response.status_code == 405, method
    assert rows() == before


@pytest.mark.parametrize("path", OWN)
def test_a_strangers_token_opens_no_more_than_the_session(real, zoe, path):
    """F4: the same with a bearer token, at the pages too."""
    headers = {"authorization": f"Bearer {ApiToken.make(zoe, name='test')[1]}"}
    before = rows()
    for method in sorted(KNOWN[path].methods):
        response = Client().generic(method, real(path), json.dumps(KNOWN[path].body), content_type="application/json", headers=headers)
        assert response.status_code == (404 if path.startswith(API) else 302), method
    assert rows() == before


@pytest.mark.parametrize("path", ["", "work-orders/", f"{API}work-orders", f"{API}pauses"])
def test_lists_hold_nothing_of_others(real, paused, zoe, path):
    response = browser(zoe).get(real(path))
    assert response.status_code == 200
    assert paused.shown_id not in response.content.decode()


@pytest.mark.parametrize("path", sorted(KNOWN))
@pytest.mark.parametrize("who", ["nobody", "ana", "ben", "zoe", "root"])
def test_reading_changes_nothing(real, path, who, django_user_model, request):
    """F1: whatever GET, HEAD and OPTIONS of any address are asked by whom, every row stays as it is."""
    root = django_user_model.objects.create_superuser("root")
    known = {"root": lambda: root, "nobody": lambda: None}
    user = known[who]() if who in known else request.getfixturevalue(who)
    client = browser(user)
    client.get(real(path))
    before = rows()
    for method in sorted(SAFE):
        for query in ("", "?action=approve&decision=approve&token=x", "?live"):
            assert client.generic(method, real(path) + query).status_code < 500
    assert rows() == before


@pytest.mark.parametrize("who", ["ana", "zoe"])
@pytest.mark.parametrize("path", [f"{API}templates/workflows/<slug:slug>", f"{API}repositories/<{REPOSITORY}>/template-execution"])
def test_what_needs_a_right_is_refused_to_whoever_lacks_it(real, path, who, request):
    """C20, S4-35."""
    client, address = browser(request.getfixturevalue(who)), real(path)
    before = rows()
    assert send(client, "PUT", address, KNOWN[path]).status_code == 403
    assert rows() == before


@pytest.mark.parametrize("who", ["ana", "ben"])
@pytest.mark.parametrize("path", [path for path in OWN if "GET" in KNOWN[path].methods and not path.endswith(("patch", "changes"))])
def test_owner_and_team_may_see(real, path, who, request):
    """C20."""
    assert browser(request.getfixturevalue(who)).get(real(path)).status_code == 200


@pytest.mark.parametrize("who", ["ana", "ben"])
@pytest.mark.parametrize(
    "path",
    [path for path in OWN if "POST" in KNOWN[path].methods and not path.endswith(NO_ANSWERS)],
)
def test_owner_and_team_may_answer(real, paused, talking, path, who, request):
    """C20."""
    response = send(browser(request.getfixturevalue(who)), "POST", real(path), KNOWN[path])
    assert response.status_code in {200, 201, 302}
    run = talking if {f"<{THREAD}>", f"<{RUN}>"} & set(path.split("/")) else paused.latest_run
    run.refresh_from_db()
    assert run.status in {"pending", "cancelled"} or path.endswith("resume")  # a run that waits is only asked about again


@pytest.mark.parametrize("path", [path for path in OWN if "POST" in KNOWN[path].methods])
def test_no_form_is_taken_from_another_site(real, ana, path):
    """F1: with Ana's session but without the page's token, nothing changes."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(ana)
    before = rows()
    assert send(client, "POST", real(path), KNOWN[path]).status_code == 403
    assert rows() == before


def test_who_was_deactivated_is_out_at_once(real, ana):
    client = browser(ana)
    ana.is_active = False
    ana.save()
    assert client.get(real("")).status_code == 302
    assert client.get(real(f"{API}work-orders")).status_code == 401


def test_an_expired_token_is_out_at_every_address(real, ana):
    _, secret = ApiToken.make(ana, name="old", expires_at=timezone.now())
    for path in INNER:
        if path.startswith(API):
            assert Client().get(real(path), headers={"authorization": f"Bearer {secret}"}).status_code == 401, path
