"""REST routes of the machine, under /api/v1/."""

from django.urls import path

from runs.api import (
    functions,
    limits,
    repositories,
    schedules,
    templates,
    tools,
    versions,
)

urlpatterns = [
    path("repositories", repositories.Repositories.as_view()),
    path("repositories/<repo:repository_id>", repositories.RepositoryDetail.as_view()),
    path(
        "repositories/<repo:repository_id>/template-execution",
        repositories.TemplateExecution.as_view(),
    ),
    path("templates/workflows", templates.WorkflowTemplates.as_view()),
    path("templates/workflows/<slug:slug>", templates.WorkflowTemplate.as_view()),
    path("templates/workflows/<slug:slug>/versions", versions.TemplateVersions.as_view()),
    path(
        "templates/workflows/<slug:slug>/versions/<int:version>", versions.TemplateVersion.as_view()
    ),
    path("templates/workflows/<slug:slug>/differences", versions.TemplateDifferences.as_view()),
    path("templates/workflows/<slug:slug>/copies", versions.TemplateCopies.as_view()),
    path("templates/workflows/<slug:slug>/enabled", versions.TemplateEnabled.as_view()),
    path("templates/workflows/<slug:slug>/dry-run", versions.TemplateDryRun.as_view()),
    path("templates/workflows/<slug:slug>/take-over", versions.TemplateTakeOver.as_view()),
    path("templates/steps", functions.StepTemplates.as_view()),
    path("templates/steps/<slug:slug>", templates.WorkflowStepTemplate.as_view()),
    path("templates/steps/<slug:slug>/versions", versions.StepTemplateVersions.as_view()),
    path(
        "templates/steps/<slug:slug>/versions/<int:version>", versions.StepTemplateVersion.as_view()
    ),
    path("templates/steps/<slug:slug>/differences", versions.StepTemplateDifferences.as_view()),
    path("templates/steps/<slug:slug>/take-over", versions.StepTemplateTakeOver.as_view()),
    path("templates/functions", functions.StepFunctions.as_view()),
    path("templates/functions/<str:name>", functions.StepFunctionDetail.as_view()),
    path("limits", limits.Limits.as_view()),
    path("limits/<int:limit_id>", limits.LimitDetail.as_view()),
    path("schedules", schedules.Schedules.as_view()),
    path("schedules/preview", schedules.SchedulePreview.as_view()),
    path("schedules/<sch:schedule_id>", schedules.ScheduleDetail.as_view()),
    path("schedules/<sch:schedule_id>/start", schedules.ScheduleStart.as_view()),
    path("schedules/<sch:schedule_id>/occurrences", schedules.ScheduleOccurrences.as_view()),
    path("tools", tools.Tools.as_view()),
    path("tools/explain", tools.Explain.as_view()),
]
