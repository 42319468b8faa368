"""REST routes of the machine, under /api/v1/."""

from django.urls import path

from runs.api import tools, work_orders

urlpatterns = [
    path("work-orders", work_orders.WorkOrders.as_view()),
    path("repositories", work_orders.Repositories.as_view()),
    path("repositories/<repo:repository_id>", work_orders.RepositoryDetail.as_view()),
    path(
        "repositories/<repo:repository_id>/template-execution",
        work_orders.TemplateExecution.as_view(),
    ),
    path("templates/workflows", work_orders.WorkflowTemplates.as_view()),
    path("templates/workflows/<slug:slug>", work_orders.WorkflowTemplate.as_view()),
    path("templates/steps/<slug:slug>", work_orders.WorkflowStepTemplate.as_view()),
    path("tools", tools.Tools.as_view()),
    path("tools/explain", tools.Explain.as_view()),
]
