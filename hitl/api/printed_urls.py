"""The addresses that clients of agent work orders know, /api/agent-work-orders/…: the views of
/api/v1/ themselves, so that no rule is kept twice.
"""

from __future__ import annotations

from typing import Any

from django.urls import path, re_path
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.views import APIView

from hitl.api import orders, unknown
from runs.api import repositories, templates


def printed(view: type[APIView], **operations: str) -> Any:
    """A view at its second address.

    `operations` name its methods in the OpenAPI document, where each name stands once.
    """
    named = {method: extend_schema(operation_id=name) for method, name in operations.items()}
    again: type[APIView] = type(f"Printed{view.__name__}", (view,), {"__doc__": view.__doc__})
    return extend_schema_view(**named)(again).as_view()


class Slashed(orders.WorkOrders):
    """With a slash at the end of its address, as the requirements print it."""


work_orders = printed(
    orders.WorkOrders, get="agent_list_work_orders", post="agent_create_work_order"
)
"""Without the slash; so it is in the OpenAPI document."""

urlpatterns = [
    path("", extend_schema(exclude=True)(Slashed).as_view()),
    path("<wo:order_id>", printed(orders.WorkOrderDetail, get="agent_get_work_order")),
    path("<wo:order_id>/pause-state", printed(orders.PauseState, get="agent_get_pause_state")),
    path("<wo:order_id>/resume", printed(orders.Resume, post="agent_resume_work_order")),
    path(
        "templates/workflows/<slug:slug>",
        printed(templates.WorkflowTemplate, get="agent_get_template", put="agent_edit_template"),
    ),
    path(
        "repositories",
        printed(
            repositories.Repositories,
            get="agent_list_repositories",
            post="agent_create_repository",
        ),
    ),
    path(
        "repositories/<repo:repository_id>/template-execution",
        printed(repositories.TemplateExecution, put="agent_set_template_execution"),
    ),
    re_path(".", unknown.NoSuchRoute.as_view()),
]
"""Its log stream, …/logs/stream, is served beside Django, by `hitl.live.routing`."""
