"""REST routes of the machine, under /api/v1/."""

from django.urls import path

from runs.api import repositories, schedules, templates, tools, work_orders

urlpatterns = [
    path("work-orders", work_orders.WorkOrders.as_view()),
    path("repositories", repositories.Repositories.as_view()),
    path("repositories/<repo:repository_id>", repositories.RepositoryDetail.as_view()),
    path(
        "repositories/<repo:repository_id>/template-execution",
        repositories.TemplateExecution.as_view(),
    ),
    path("templates/workflows", templates.WorkflowTemplates.as_view()),
    path("templates/workflows/<slug:slug>", templates.WorkflowTemplate.as_view()),
    path("templates/steps/<slug:slug>", templates.WorkflowStepTemplate.as_view()),
    path("schedules", schedules.Schedules.as_view()),
    path("schedules/<sch:schedule_id>", schedules.ScheduleDetail.as_view()),
    path("schedules/<sch:schedule_id>/start", schedules.ScheduleStart.as_view()),
    path("schedules/<sch:schedule_id>/occurrences", schedules.ScheduleOccurrences.as_view()),
    path("tools", tools.Tools.as_view()),
    path("tools/explain", tools.Explain.as_view()),
]
