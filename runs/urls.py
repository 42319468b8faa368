"""REST routes of the machine, under /api/v1/."""

from django.urls import path

from runs import api, api_tools

urlpatterns = [
    path("work-orders", api.WorkOrders.as_view()),
    path("repositories", api.Repositories.as_view()),
    path("repositories/<repo:repository_id>", api.RepositoryDetail.as_view()),
    path("repositories/<repo:repository_id>/template-execution", api.TemplateExecution.as_view()),
    path("templates/workflows", api.WorkflowTemplates.as_view()),
    path("templates/workflows/<slug:slug>", api.WorkflowTemplate.as_view()),
    path("templates/steps/<slug:slug>", api.WorkflowStepTemplate.as_view()),
    path("tools", api_tools.Tools.as_view()),
    path("tools/explain", api_tools.Explain.as_view()),
]
