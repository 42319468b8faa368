"""The documents' routes to resume a run: thin, and one service behind all of them (C11).

And what all of it stands on (C19).
"""

from __future__ import annotations

from typing import Any

import pytest
from celery import Task
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.routing import ProtocolTypeRouter
from rest_framework.views import APIView

from hitl.api import urls
from hitl.decisions.services import pauses, work_orders
from hitl.http.refusals import exception_handler
from hitl.live import routing
from hitl.models import Decision
from project.asgi import application
from project.celery import app
from runs.models import Run
from tests.conftest import drive, kinds, log_lines, pause_of, state_at_head
from tests.databases.whole import rows
from tests.doors.rest import problem

DOORS: dict[str, tuple[str, dict[str, Any]]] = {
    "S4: the decision on a work order": ("work-orders/{order}/resume", {"decision": "approve"}),
    "S3: a resume event": ("workflows/{run}/resume", {"payload": "approve"}),
    "S3: the same, and go on": ("workflows/{run}/resume-and-continue", {"input_type": "approve"}),
    "S2: a trace and its prompt": (
        "resume",
        {"traceId": "{run}", "promptId": "{pause}", "response": "approve"},
    ),
    "S0: a message on the thread": (
        "threads/{thread}/runs?auto_resume_pending=true",
        {"input": "APPROVE"},
    ),
    "S0: input for the run": ("runs/{run}/input", {"content": "APPROVE"}),
    "the question's own": ("pauses/{pause}/decisions", {"decision": "approve"}),
}


@pytest.fixture
def knock(api, ana, ben):
    """`knock(order, door)`: a request at that door, about the question that the order asked
    first.
    """

    clients = {user: api(user) for user in (ana, ben)}

    def knock(order: Any, door: str, by: Any = ana) -> Any:
        path, body = DOORS[door]
        pause = order.latest_run.pauses.earliest("pk")
        names = {
            "order": order.shown_id,
            "run": order.latest_run.shown_id,
            "thread": order.thread.shown_id,
            "pause": pause.shown_id,
        }
        filled = {key: value.format(**names) for key, value in body.items()}
        return clients[by].post(f"/api/v1/{path.format(**names)}", filled, format="json")

    return knock


@pytest.mark.django_db
@pytest.mark.one_database
def test_whichever_route_is_taken_one_service_decides_and_the_same_comes_of_it(
    make_order, knock, ana, ben, api, monkeypatch
):
    """C11, F4: the next one is told who won."""
    real, asked = pauses.take, list[str]()

    def decide(answer: Any, standing: Any) -> Any:
        asked.append(answer.action)
        return real(answer, standing)

    for module in (pauses, work_orders):
        monkeypatch.setattr(module, "take", decide)
    outcomes: set[str] = set()
    for door in DOORS:
        order = drive(make_order())
        said = knock(order, door)
        assert (said.status_code in {200, 201}, asked) == (True, ["approve"]), (door, said.json())
        before = rows()
        for other in DOORS:
            late = problem(knock(order, other, ben), 409, "pause_closed")
            assert (late["decided_by"], late["decision"]) == ("ana", "approve"), (door, other)
        assert rows() == before
        asked.clear()
        decision = Decision.objects.get(pause__run__thread=order.thread_id)
        written = (
            decision.action,
            decision.decided_by,
            decision.via,
            decision.feedback,
            decision.pause.revision,
            decision.payload,
        )
        outcomes.add(
            repr(
                [
                    written,
                    drive(order).phase,
                    kinds(order),
                    log_lines(order),
                    state_at_head(order.thread_id)["decided"],
                ]
            )
        )
    assert len(outcomes) == 1, outcomes


@pytest.mark.django_db
@pytest.mark.one_database
def test_the_route_by_a_checkpoint_asks_again_and_decides_nothing(paused, ana, api):
    """C11, S0-11: `runs/{id}/resume` names a place, not an answer."""
    pause = pause_of(paused)
    address = f"/api/v1/runs/{paused.latest_run.shown_id}/resume"
    said = api(ana).post(address, {"checkpoint_id": pause.checkpoint.shown_id}, format="json")
    assert (said.status_code, said.json()["how"], said.json()["decision"]) == (200, "asked", None)
    assert (Decision.objects.count(), Run.objects.count(), pause_of(paused)) == (0, 1, pause)


@pytest.mark.django_db  # Celery runs the checks, which look at the database
@pytest.mark.one_database
def test_the_product_stands_on_django_rest_framework_celery_and_channels():
    """C19."""
    views: list[Any] = [route.callback for route in urls.urlpatterns]
    assert [view for view in views if not issubclass(view.cls, APIView)] == [] and len(views) > 50
    app.loader.import_default_modules()
    own = {
        name: task
        for name, task in app.tasks.items()
        if name.startswith(("runs.", "hitl.", "checkpoints."))
    }
    assert {"runs.tasks.advance_run", "runs.tasks.sweep"} <= own.keys() and all(
        isinstance(task, Task) for task in own.values()
    )
    sockets = [route.callback.consumer_class for route in routing.websockets(exception_handler)]
    assert len(sockets) >= 4 and all(
        issubclass(socket, AsyncWebsocketConsumer) for socket in sockets
    )
    assert (
        isinstance(application, ProtocolTypeRouter)
        and {"http", "websocket"} == application.application_mapping.keys()
    )
