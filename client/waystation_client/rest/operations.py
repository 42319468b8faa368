"""A function for each operation of the REST API, made by client/generate.py: do not edit."""

from __future__ import annotations

from typing import Any, Literal

from waystation_client.requests import Request, address
from waystation_client.rest import models


def get_artifact(artifact_id: str) -> Request[models.ArtifactWhole]:
    """Read what a step kept."""
    return Request("GET", address("/api/v1/artifacts/{artifact_id}", artifact_id))


def get_artifact_content(artifact_id: str) -> Request[None]:
    """Read the bytes of a text or a file that a run has."""
    return Request("GET", address("/api/v1/artifacts/{artifact_id}/content", artifact_id))


def list_batches(
    *, cursor: str | None = None, limit: int | None = None
) -> Request[models.PaginatedBatchOutList]:
    """List what was done to many orders at once, newest first."""
    return Request("GET", "/api/v1/batches", query={"cursor": cursor, "limit": limit})


def start_batch(body: models.BatchIn) -> Request[models.BatchOut]:
    """Retry, cancel or fork many orders, each in a transaction of its own."""
    return Request("POST", "/api/v1/batches", body=body)


def preview_batch(body: models.BatchChoiceIn) -> Request[models.BatchPreviewOut]:
    """Say what a batch would do, and do nothing."""
    return Request("POST", "/api/v1/batches/preview", body=body)


def get_batch(batch_id: str) -> Request[models.BatchOut]:
    """Read a batch."""
    return Request("GET", address("/api/v1/batches/{batch_id}", batch_id))


def receive_mail(body: dict[str, Any]) -> Request[models.MailTaken]:
    """Take a reply to a mail."""
    return Request("POST", "/api/v1/channels/mail", body=body)


def receive_slack() -> Request[dict[str, Any]]:
    """Take what was pressed in Slack."""
    return Request("POST", "/api/v1/channels/slack")


def receive_teams(body: dict[str, Any]) -> Request[models.TeamsSaid]:
    """Take what was written to an outgoing webhook of Teams."""
    return Request("POST", "/api/v1/channels/teams", body=body)


def receive_telegram(body: dict[str, Any]) -> Request[dict[str, Any]]:
    """Take what was pressed in Telegram, or written to the bot."""
    return Request("POST", "/api/v1/channels/telegram", body=body)


def get_checkpoint(checkpoint_id: str) -> Request[models.CheckpointWhole]:
    """Read a checkpoint with its state."""
    return Request("GET", address("/api/v1/checkpoints/{checkpoint_id}", checkpoint_id))


def diff_checkpoints(checkpoint_id: str, *, against: str | None = None) -> Request[models.DiffOut]:
    """What changed between two checkpoints of a thread."""
    return Request(
        "GET",
        address("/api/v1/checkpoints/{checkpoint_id}/diff", checkpoint_id),
        query={"against": against},
    )


def list_checkpoint_events(checkpoint_id: str) -> Request[models.PaginatedEventOutList]:
    """The events of the step behind a checkpoint."""
    return Request("GET", address("/api/v1/checkpoints/{checkpoint_id}/events", checkpoint_id))


def fork_checkpoint(checkpoint_id: str, body: models.ForkIn) -> Request[models.Forked]:
    """Go on from a checkpoint as a new run."""
    return Request(
        "POST", address("/api/v1/checkpoints/{checkpoint_id}/fork", checkpoint_id), body=body
    )


def withdraw_comment(comment_id: str) -> Request[models.CommentOut]:
    """Take back a comment of your own."""
    return Request("DELETE", address("/api/v1/comments/{comment_id}", comment_id))


def list_decisions(
    *,
    cursor: str | None = None,
    kind: Literal["approval", "input", "tools", "external"] | None = None,
    limit: int | None = None,
    person: str | None = None,
    phase: str | None = None,
    q: str | None = None,
    repository: str | None = None,
    risk: Literal["low", "normal", "high"] | None = None,
    since: str | None = None,
    sort: Literal["newest", "oldest"] | None = None,
    status: str | None = None,
    team: str | None = None,
    template: str | None = None,
    until: str | None = None,
) -> Request[models.PaginatedDecisionOutList]:
    """List and search answers, newest first."""
    return Request(
        "GET",
        "/api/v1/decisions",
        query={
            "cursor": cursor,
            "kind": kind,
            "limit": limit,
            "person": person,
            "phase": phase,
            "q": q,
            "repository": repository,
            "risk": risk,
            "since": since,
            "sort": sort,
            "status": status,
            "team": team,
            "template": template,
            "until": until,
        },
    )


def get_decision(decision_id: str) -> Request[models.ReceiptOut]:
    """Read a decision's receipt."""
    return Request("GET", address("/api/v1/decisions/{decision_id}", decision_id))


def undo_decision(decision_id: str) -> Request[models.ReceiptOut]:
    """Take an answer back before the run goes on with it."""
    return Request("POST", address("/api/v1/decisions/{decision_id}/undo", decision_id))


def list_deliveries(
    *,
    cursor: str | None = None,
    limit: int | None = None,
    pause: str | None = None,
    status: Literal["cancelled", "dead", "queued", "sending", "sent"] | None = None,
) -> Request[models.PaginatedDeliveryOutList]:
    """List messages about the questions that you may see, newest first."""
    return Request(
        "GET",
        "/api/v1/deliveries",
        query={"cursor": cursor, "limit": limit, "pause": pause, "status": status},
    )


def get_delivery(delivery_id: str) -> Request[models.DeliveryOut]:
    """Read a message's state."""
    return Request("GET", address("/api/v1/deliveries/{delivery_id}", delivery_id))


def send_delivery_again(delivery_id: str) -> Request[models.DeliveryOut]:
    """Send again what was given up, or failed and waits for its next try."""
    return Request("POST", address("/api/v1/deliveries/{delivery_id}/again", delivery_id))


def list_endpoints(
    *, cursor: str | None = None, limit: int | None = None
) -> Request[models.PaginatedEndpointOutList]:
    """List your endpoints."""
    return Request("GET", "/api/v1/endpoints", query={"cursor": cursor, "limit": limit})


def make_endpoint(body: models.EndpointIn) -> Request[models.EndpointMade]:
    """Be told of questions."""
    return Request("POST", "/api/v1/endpoints", body=body)


def get_endpoint(endpoint_id: str) -> Request[models.EndpointOut]:
    """Read an endpoint."""
    return Request("GET", address("/api/v1/endpoints/{endpoint_id}", endpoint_id))


def switch_endpoint(endpoint_id: str, body: models.EndpointChange) -> Request[models.EndpointOut]:
    """Switch an endpoint on or off."""
    return Request("PATCH", address("/api/v1/endpoints/{endpoint_id}", endpoint_id), body=body)


def remove_endpoint(endpoint_id: str) -> Request[None]:
    """Remove an endpoint."""
    return Request("DELETE", address("/api/v1/endpoints/{endpoint_id}", endpoint_id))


def rotate_endpoint_secret(endpoint_id: str) -> Request[models.EndpointMade]:
    """A new secret."""
    return Request("POST", address("/api/v1/endpoints/{endpoint_id}/secret", endpoint_id))


def test_endpoint(endpoint_id: str) -> Request[models.DeliveryOut]:
    """Send a test."""
    return Request("POST", address("/api/v1/endpoints/{endpoint_id}/test", endpoint_id))


def list_inbound_starts(
    *, cursor: str | None = None, limit: int | None = None
) -> Request[models.PaginatedStartOutList]:
    """List your inbound starts, newest first."""
    return Request("GET", "/api/v1/inbound-starts", query={"cursor": cursor, "limit": limit})


def make_inbound_start(body: models.StartIn) -> Request[models.StartMade]:
    """Let signed messages start work in your name."""
    return Request("POST", "/api/v1/inbound-starts", body=body)


def get_inbound_start(start_id: str) -> Request[models.StartOut]:
    """Read an inbound start."""
    return Request("GET", address("/api/v1/inbound-starts/{start_id}", start_id))


def switch_inbound_start(start_id: str, body: models.StartChange) -> Request[models.StartOut]:
    """Switch an inbound start on or off."""
    return Request("PATCH", address("/api/v1/inbound-starts/{start_id}", start_id), body=body)


def remove_inbound_start(start_id: str) -> Request[None]:
    """Remove an inbound start; its orders stay."""
    return Request("DELETE", address("/api/v1/inbound-starts/{start_id}", start_id))


def list_start_deliveries(
    start_id: str, *, cursor: str | None = None, limit: int | None = None
) -> Request[models.PaginatedStartDeliveryOutList]:
    """List the signed messages that came, newest first."""
    return Request(
        "GET",
        address("/api/v1/inbound-starts/{start_id}/deliveries", start_id),
        query={"cursor": cursor, "limit": limit},
    )


def rotate_inbound_start_secret(start_id: str) -> Request[models.StartMade]:
    """A new secret; the one before signs until the next."""
    return Request("POST", address("/api/v1/inbound-starts/{start_id}/secret", start_id))


def receive_event(source: str, body: models.ResumeEventIn) -> Request[models.IngestedOut]:
    """Take a signed event from a source."""
    return Request("POST", address("/api/v1/inbound/{source}", source), body=body)


def receive_start(source: str, body: dict[str, Any]) -> Request[models.StartAnswer]:
    """Start a work order by a signed message."""
    return Request("POST", address("/api/v1/inbound/{source}/start", source), body=body)


def export_ledger(
    *, format: Literal["csv", "json"] | None = None, ledger: str | None = None
) -> Request[dict[str, Any]]:
    """Export the ledgers that you may see."""
    return Request("GET", "/api/v1/ledger", query={"format": format, "ledger": ledger})


def list_limits() -> Request[models.PaginatedLimitOutList]:
    """List the limits of work at once, with how many work and wait."""
    return Request("GET", "/api/v1/limits")


def make_limit(body: models.LimitIn) -> Request[models.LimitOut]:
    """Limit how many runs of a template are at work at once."""
    return Request("POST", "/api/v1/limits", body=body)


def get_limit(limit_id: str) -> Request[models.LimitOut]:
    """Read a limit."""
    return Request("GET", address("/api/v1/limits/{limit_id}", limit_id))


def change_limit(limit_id: str, body: models.LimitChange) -> Request[models.LimitOut]:
    """Change a limit; it holds from the next claim on."""
    return Request("PATCH", address("/api/v1/limits/{limit_id}", limit_id), body=body)


def remove_limit(limit_id: str) -> Request[None]:
    """Remove a limit; who waited under it goes on."""
    return Request("DELETE", address("/api/v1/limits/{limit_id}", limit_id))


def list_pauses(
    *,
    cursor: str | None = None,
    due: Literal["overdue", "today", "week", "none"] | None = None,
    ids: str | None = None,
    kind: Literal["approval", "input", "tools", "external"] | None = None,
    limit: int | None = None,
    open: bool | None = None,
    person: str | None = None,
    phase: str | None = None,
    q: str | None = None,
    repository: str | None = None,
    risk: Literal["low", "normal", "high"] | None = None,
    since: str | None = None,
    sort: Literal["due", "newest", "oldest"] | None = None,
    team: str | None = None,
    template: str | None = None,
    until: str | None = None,
    whose: Literal["own", "team", "asked"] | None = None,
) -> Request[models.PaginatedPauseOutList]:
    """List and search questions, newest first."""
    return Request(
        "GET",
        "/api/v1/pauses",
        query={
            "cursor": cursor,
            "due": due,
            "ids": ids,
            "kind": kind,
            "limit": limit,
            "open": open,
            "person": person,
            "phase": phase,
            "q": q,
            "repository": repository,
            "risk": risk,
            "since": since,
            "sort": sort,
            "team": team,
            "template": template,
            "until": until,
            "whose": whose,
        },
    )


def decide_several(body: models.BulkIn) -> Request[models.BulkOut]:
    """Answer several questions alike."""
    return Request("POST", "/api/v1/pauses/bulk", body=body)


def get_pause(pause_id: str) -> Request[models.PauseOut]:
    """Read a question."""
    return Request("GET", address("/api/v1/pauses/{pause_id}", pause_id))


def claim_pause(pause_id: str, body: models.ClaimIn) -> Request[models.ReviewOut]:
    """Keep others from answering for a while."""
    return Request("POST", address("/api/v1/pauses/{pause_id}/claim", pause_id), body=body)


def list_comments(pause_id: str) -> Request[models.PaginatedCommentOutList]:
    """Read what was said at a question."""
    return Request("GET", address("/api/v1/pauses/{pause_id}/comments", pause_id))


def make_comment(pause_id: str, body: models.CommentIn) -> Request[models.CommentOut]:
    """Say something at a question."""
    return Request("POST", address("/api/v1/pauses/{pause_id}/comments", pause_id), body=body)


def decide(pause_id: str, body: models.DecisionIn) -> Request[models.DecisionOut | models.VotedOut]:
    """Answer a question."""
    return Request("POST", address("/api/v1/pauses/{pause_id}/decisions", pause_id), body=body)


def extend_deadline(pause_id: str, body: models.ExtendIn) -> Request[models.PauseOut]:
    """Move a question's deadline."""
    return Request("POST", address("/api/v1/pauses/{pause_id}/extend", pause_id), body=body)


def hand_over_pause(pause_id: str, body: models.HandOverIn) -> Request[models.ReviewOut]:
    """Let a colleague answer in your place."""
    return Request("POST", address("/api/v1/pauses/{pause_id}/hand-over", pause_id), body=body)


def take_back_pause(pause_id: str) -> Request[models.ReviewOut]:
    """Answer yourself again what you handed over."""
    return Request("DELETE", address("/api/v1/pauses/{pause_id}/hand-over", pause_id))


def get_presence(pause_id: str) -> Request[models.PresenceOut]:
    """Who is at a question."""
    return Request("GET", address("/api/v1/pauses/{pause_id}/presence", pause_id))


def set_presence(pause_id: str, body: models.PresenceIn) -> Request[models.PresenceOut]:
    """Say that you are at a question."""
    return Request("POST", address("/api/v1/pauses/{pause_id}/presence", pause_id), body=body)


def release_pause(pause_id: str) -> Request[models.ReviewOut]:
    """Let others answer again."""
    return Request("POST", address("/api/v1/pauses/{pause_id}/release", pause_id))


def snooze_pause(pause_id: str, body: models.SnoozeIn) -> Request[models.SnoozeIn]:
    """Hide a question from your inbox for a while."""
    return Request("POST", address("/api/v1/pauses/{pause_id}/snooze", pause_id), body=body)


def list_repositories(
    *, cursor: str | None = None, limit: int | None = None
) -> Request[models.PaginatedRepositoryOutList]:
    """List repositories, newest first."""
    return Request("GET", "/api/v1/repositories", query={"cursor": cursor, "limit": limit})


def create_repository(body: models.NewRepositoryIn) -> Request[models.RepositoryOut]:
    """Settle something about a repository for the first time."""
    return Request("POST", "/api/v1/repositories", body=body)


def get_repository(repository_id: str) -> Request[models.RepositoryOut]:
    """Read a repository's settings."""
    return Request("GET", address("/api/v1/repositories/{repository_id}", repository_id))


def configure_repository(
    repository_id: str, body: models.RepositoryIn
) -> Request[models.RepositoryOut]:
    """Change a repository's settings."""
    return Request("PUT", address("/api/v1/repositories/{repository_id}", repository_id), body=body)


def set_template_execution(
    repository_id: str, body: models.TemplateExecutionIn
) -> Request[models.RepositoryOut]:
    """Allow or stop work orders on a repository."""
    return Request(
        "PUT",
        address("/api/v1/repositories/{repository_id}/template-execution", repository_id),
        body=body,
    )


def resume_trace(body: models.TraceIn) -> Request[models.TraceOut]:
    """Answer the prompt of a trace."""
    return Request("POST", "/api/v1/resume", body=body)


def list_runs(
    *,
    cursor: str | None = None,
    limit: int | None = None,
    mine: bool | None = None,
    status: Literal[
        "cancelled",
        "completed",
        "expired",
        "failed",
        "paused",
        "pending",
        "pending_input",
        "running",
    ]
    | None = None,
    thread: str | None = None,
    user_id: str | None = None,
) -> Request[models.PaginatedRunOutList]:
    """List runs, newest first."""
    return Request(
        "GET",
        "/api/v1/runs",
        query={
            "cursor": cursor,
            "limit": limit,
            "mine": mine,
            "status": status,
            "thread": thread,
            "user_id": user_id,
        },
    )


def get_run(run_id: str) -> Request[models.RunOut]:
    """Read a run."""
    return Request("GET", address("/api/v1/runs/{run_id}", run_id))


def cancel_run(run_id: str) -> Request[models.RunOut]:
    """End a run and its child runs."""
    return Request("POST", address("/api/v1/runs/{run_id}/cancel", run_id))


def list_run_checkpoints(
    run_id: str, *, cursor: str | None = None, limit: int | None = None
) -> Request[models.PaginatedCheckpointOutList]:
    """A run's checkpoints, newest first."""
    return Request(
        "GET",
        address("/api/v1/runs/{run_id}/checkpoints", run_id),
        query={"cursor": cursor, "limit": limit},
    )


def list_run_events(
    run_id: str, *, after: int | None = None, limit: int | None = None
) -> Request[models.PaginatedEventOutList]:
    """A run's events, in order."""
    return Request(
        "GET",
        address("/api/v1/runs/{run_id}/events", run_id),
        query={"after": after, "limit": limit},
    )


def give_run_input(run_id: str, body: models.InputIn) -> Request[models.SaidOut]:
    """Answer what a run asks, in words."""
    return Request("POST", address("/api/v1/runs/{run_id}/input", run_id), body=body)


def resume_run(run_id: str, body: models.ResumeIn) -> Request[models.SaidOut]:
    """Go on with a run."""
    return Request("POST", address("/api/v1/runs/{run_id}/resume", run_id), body=body)


def suspend_run(run_id: str, body: models.SuspendIn) -> Request[models.RunOut]:
    """Stop a run at its next step boundary."""
    return Request("POST", address("/api/v1/runs/{run_id}/suspend", run_id), body=body)


def get_run_why(run_id: str) -> Request[models.RunWhyOut]:
    """Why a run does not go on."""
    return Request("GET", address("/api/v1/runs/{run_id}/why", run_id))


def list_schedules(
    *, cursor: str | None = None, limit: int | None = None
) -> Request[models.PaginatedScheduleOutList]:
    """List your schedules, newest first."""
    return Request("GET", "/api/v1/schedules", query={"cursor": cursor, "limit": limit})


def make_schedule(body: models.ScheduleIn) -> Request[models.ScheduleOut]:
    """Order work by the clock."""
    return Request("POST", "/api/v1/schedules", body=body)


def preview_schedule(body: models.PreviewIn) -> Request[models.PreviewOut]:
    """Say when a schedule would occur, and what changes of the clock do to that."""
    return Request("POST", "/api/v1/schedules/preview", body=body)


def get_schedule(schedule_id: str) -> Request[models.ScheduleOut]:
    """Read a schedule."""
    return Request("GET", address("/api/v1/schedules/{schedule_id}", schedule_id))


def change_schedule(schedule_id: str, body: models.ScheduleChange) -> Request[models.ScheduleOut]:
    """Change a schedule, or switch it on or off."""
    return Request("PATCH", address("/api/v1/schedules/{schedule_id}", schedule_id), body=body)


def remove_schedule(schedule_id: str) -> Request[None]:
    """Remove a schedule and its history; its orders stay."""
    return Request("DELETE", address("/api/v1/schedules/{schedule_id}", schedule_id))


def list_occurrences(
    schedule_id: str, *, cursor: str | None = None, limit: int | None = None
) -> Request[models.PaginatedOccurrenceOutList]:
    """List what became of its times, the last written first."""
    return Request(
        "GET",
        address("/api/v1/schedules/{schedule_id}/occurrences", schedule_id),
        query={"cursor": cursor, "limit": limit},
    )


def start_schedule(schedule_id: str) -> Request[models.WorkOrderOut]:
    """Start its order now, beside its times."""
    return Request("POST", address("/api/v1/schedules/{schedule_id}/start", schedule_id))


def list_step_functions() -> Request[models.StepFunctionsOut]:
    """List the step functions, with the schemas of what they take."""
    return Request("GET", "/api/v1/templates/functions")


def get_step_function(name: str) -> Request[models.StepFunctionOut]:
    """Read a step function."""
    return Request("GET", address("/api/v1/templates/functions/{name}", name))


def list_step_templates(
    *,
    cursor: str | None = None,
    function: str | None = None,
    limit: int | None = None,
    q: str | None = None,
) -> Request[models.PaginatedStepTemplateOutList]:
    """List step templates, newest first."""
    return Request(
        "GET",
        "/api/v1/templates/steps",
        query={"cursor": cursor, "function": function, "limit": limit, "q": q},
    )


def get_step_template(slug: str) -> Request[models.StepTemplateOut]:
    """Read a step template."""
    return Request("GET", address("/api/v1/templates/steps/{slug}", slug))


def edit_step_template(slug: str, body: models.StepTemplateIn) -> Request[models.StepTemplateOut]:
    """Save a step template as its next version."""
    return Request("PUT", address("/api/v1/templates/steps/{slug}", slug), body=body)


def compare_step_template_versions(
    slug: str, *, new: str | None = None, old: str | None = None
) -> Request[models.VersionDifferencesOut]:
    """Compare two versions of a step template."""
    return Request(
        "GET",
        address("/api/v1/templates/steps/{slug}/differences", slug),
        query={"new": new, "old": old},
    )


def take_over_step_template(slug: str, body: models.TakeOverIn) -> Request[models.StepTemplateOut]:
    """Make the code's newer declaration the current version."""
    return Request("PUT", address("/api/v1/templates/steps/{slug}/take-over", slug), body=body)


def list_step_template_versions(
    slug: str, *, cursor: str | None = None, limit: int | None = None
) -> Request[models.PaginatedVersionRowList]:
    """List a step template's versions, newest first."""
    return Request(
        "GET",
        address("/api/v1/templates/steps/{slug}/versions", slug),
        query={"cursor": cursor, "limit": limit},
    )


def get_step_template_version(slug: str, version: str) -> Request[models.StepTemplateOut]:
    """Read one version of a step template."""
    return Request(
        "GET", address("/api/v1/templates/steps/{slug}/versions/{version}", slug, version)
    )


def list_templates(
    *,
    cursor: str | None = None,
    enabled: bool | None = None,
    limit: int | None = None,
    q: str | None = None,
    step: str | None = None,
) -> Request[models.PaginatedTemplateRowList]:
    """List templates, newest first."""
    return Request(
        "GET",
        "/api/v1/templates/workflows",
        query={"cursor": cursor, "enabled": enabled, "limit": limit, "q": q, "step": step},
    )


def get_template(slug: str) -> Request[models.TemplateOut]:
    """Read a template."""
    return Request("GET", address("/api/v1/templates/workflows/{slug}", slug))


def edit_template(slug: str, body: models.TemplateIn) -> Request[models.TemplateOut]:
    """Save a template as its next version."""
    return Request("PUT", address("/api/v1/templates/workflows/{slug}", slug), body=body)


def copy_template(slug: str, body: models.CopyIn) -> Request[models.TemplateOut]:
    """Copy a template under another name."""
    return Request("POST", address("/api/v1/templates/workflows/{slug}/copies", slug), body=body)


def compare_template_versions(
    slug: str, *, new: str | None = None, old: str | None = None
) -> Request[models.VersionDifferencesOut]:
    """Compare two versions of a template."""
    return Request(
        "GET",
        address("/api/v1/templates/workflows/{slug}/differences", slug),
        query={"new": new, "old": old},
    )


def dry_run_template(slug: str, body: models.DryRunIn) -> Request[models.DryRunOut]:
    """Say what an order by a template would meet."""
    return Request("POST", address("/api/v1/templates/workflows/{slug}/dry-run", slug), body=body)


def switch_template(slug: str, body: models.EnabledIn) -> Request[models.TemplateOut]:
    """Switch a template off, or on again."""
    return Request("PUT", address("/api/v1/templates/workflows/{slug}/enabled", slug), body=body)


def take_over_template(slug: str, body: models.TakeOverIn) -> Request[models.TemplateOut]:
    """Make the code's newer declaration the current version."""
    return Request("PUT", address("/api/v1/templates/workflows/{slug}/take-over", slug), body=body)


def list_template_versions(
    slug: str, *, cursor: str | None = None, limit: int | None = None
) -> Request[models.PaginatedVersionRowList]:
    """List a template's versions, newest first."""
    return Request(
        "GET",
        address("/api/v1/templates/workflows/{slug}/versions", slug),
        query={"cursor": cursor, "limit": limit},
    )


def get_template_version(slug: str, version: str) -> Request[models.TemplateOut]:
    """Read one version of a template."""
    return Request(
        "GET", address("/api/v1/templates/workflows/{slug}/versions/{version}", slug, version)
    )


def list_threads(
    *,
    cursor: str | None = None,
    failure_code: str | None = None,
    limit: int | None = None,
    person: str | None = None,
    q: str | None = None,
    since: str | None = None,
    sort: Literal["newest", "oldest"] | None = None,
    status: Literal[
        "new",
        "pending",
        "running",
        "paused",
        "completed",
        "failed",
        "cancelled",
        "expired",
        "resumed",
    ]
    | None = None,
    team: str | None = None,
    template: str | None = None,
    until: str | None = None,
) -> Request[models.PaginatedThreadOutList]:
    """List and search threads, newest first."""
    return Request(
        "GET",
        "/api/v1/threads",
        query={
            "cursor": cursor,
            "failure_code": failure_code,
            "limit": limit,
            "person": person,
            "q": q,
            "since": since,
            "sort": sort,
            "status": status,
            "team": team,
            "template": template,
            "until": until,
        },
    )


def create_thread(body: models.ThreadIn) -> Request[models.ThreadOut]:
    """Open a thread."""
    return Request("POST", "/api/v1/threads", body=body)


def import_thread(body: dict[str, Any], *, team: str | None = None) -> Request[models.ThreadOut]:
    """A thread from a document."""
    return Request("POST", "/api/v1/threads/import", query={"team": team}, body=body)


def get_thread(thread_id: str) -> Request[models.ThreadOut]:
    """Read a thread."""
    return Request("GET", address("/api/v1/threads/{thread_id}", thread_id))


def change_thread(thread_id: str, body: models.ThreadChangeIn) -> Request[models.ThreadOut]:
    """Choose what becomes of messages while a run is alive."""
    return Request("PATCH", address("/api/v1/threads/{thread_id}", thread_id), body=body)


def list_thread_artifacts(
    thread_id: str, *, cursor: str | None = None, limit: int | None = None
) -> Request[models.PaginatedArtifactOutList]:
    """What the steps of a thread kept, newest first."""
    return Request(
        "GET",
        address("/api/v1/threads/{thread_id}/artifacts", thread_id),
        query={"cursor": cursor, "limit": limit},
    )


def list_thread_branches(thread_id: str, *, before: str | None = None) -> Request[models.TreeOut]:
    """A thread's branches."""
    return Request(
        "GET", address("/api/v1/threads/{thread_id}/branches", thread_id), query={"before": before}
    )


def look_at_thread_erasure(thread_id: str) -> Request[models.ProspectOut]:
    """What erasing a thread would take away."""
    return Request("GET", address("/api/v1/threads/{thread_id}/erasure", thread_id))


def erase_thread(thread_id: str, body: models.ErasureIn) -> Request[models.ErasureOut]:
    """Erase a thread for good."""
    return Request("POST", address("/api/v1/threads/{thread_id}/erasure", thread_id), body=body)


def list_thread_events(
    thread_id: str, *, after: int | None = None, limit: int | None = None
) -> Request[models.PaginatedEventOutList]:
    """A thread's log, in order."""
    return Request(
        "GET",
        address("/api/v1/threads/{thread_id}/events", thread_id),
        query={"after": after, "limit": limit},
    )


def export_thread(thread_id: str) -> Request[dict[str, Any]]:
    """A thread as one document."""
    return Request("GET", address("/api/v1/threads/{thread_id}/export", thread_id))


def get_thread_history(
    thread_id: str,
    *,
    branch: str | None = None,
    cursor: str | None = None,
    limit: int | None = None,
) -> Request[models.PaginatedCheckpointOutList]:
    """A thread's checkpoints, newest first."""
    return Request(
        "GET",
        address("/api/v1/threads/{thread_id}/history", thread_id),
        query={"branch": branch, "cursor": cursor, "limit": limit},
    )


def list_thread_messages(
    thread_id: str, *, after: str | None = None, limit: int | None = None
) -> Request[models.PaginatedMessageOutList]:
    """What was said on a thread, with tool calls, oldest first."""
    return Request(
        "GET",
        address("/api/v1/threads/{thread_id}/messages", thread_id),
        query={"after": after, "limit": limit},
    )


def list_queued_messages(thread_id: str) -> Request[models.PaginatedQueuedOutList]:
    """The messages that wait for their turn, in order."""
    return Request("GET", address("/api/v1/threads/{thread_id}/queue", thread_id))


def withdraw_queued_message(thread_id: str, turn_id: str) -> Request[models.QueuedOut]:
    """Withdraw a message that waits."""
    return Request(
        "DELETE", address("/api/v1/threads/{thread_id}/queue/{turn_id}", thread_id, turn_id)
    )


def list_thread_runs(
    thread_id: str, *, cursor: str | None = None, limit: int | None = None
) -> Request[models.PaginatedRunOutList]:
    """A thread's runs, newest first."""
    return Request(
        "GET",
        address("/api/v1/threads/{thread_id}/runs", thread_id),
        query={"cursor": cursor, "limit": limit},
    )


def run_thread(
    thread_id: str, body: models.RunIn, *, auto_resume_pending: bool | None = None
) -> Request[models.SaidOut]:
    """Give a thread new input."""
    return Request(
        "POST",
        address("/api/v1/threads/{thread_id}/runs", thread_id),
        query={"auto_resume_pending": auto_resume_pending},
        body=body,
    )


def get_thread_state(thread_id: str) -> Request[models.StateOut]:
    """The state at a thread's latest checkpoint."""
    return Request("GET", address("/api/v1/threads/{thread_id}/state", thread_id))


def list_tools() -> Request[models.ToolsOut]:
    """List the tools that agents may call."""
    return Request("GET", "/api/v1/tools")


def list_tool_definitions() -> Request[models.DefinitionsOut]:
    """Tools by which an agent starts, pauses, answers and ends work orders."""
    return Request("GET", "/api/v1/tools/definitions")


def explain_tool_call(body: models.ExplainIn) -> Request[models.VerdictOut]:
    """Explain whether a tool's call would ask a person."""
    return Request("POST", "/api/v1/tools/explain", body=body)


def list_views(
    *,
    cursor: str | None = None,
    limit: int | None = None,
    list: Literal["history", "inbox", "orders", "threads"] | None = None,
) -> Request[models.PaginatedSavedViewOutList]:
    """List saved views, your own and those of your teams, newest first."""
    return Request("GET", "/api/v1/views", query={"cursor": cursor, "limit": limit, "list": list})


def save_view(body: models.SavedViewIn) -> Request[models.SavedViewOut]:
    """Save a view of a list."""
    return Request("POST", "/api/v1/views", body=body)


def get_view(view_id: str) -> Request[models.SavedViewOut]:
    """Read a saved view."""
    return Request("GET", address("/api/v1/views/{view_id}", view_id))


def change_view(view_id: str, body: models.SavedViewChange) -> Request[models.SavedViewOut]:
    """Rename a saved view of your own, share it, or change what it asks."""
    return Request("PATCH", address("/api/v1/views/{view_id}", view_id), body=body)


def remove_view(view_id: str) -> Request[None]:
    """Remove a saved view of your own."""
    return Request("DELETE", address("/api/v1/views/{view_id}", view_id))


def list_work_orders(
    *,
    cursor: str | None = None,
    due: Literal["overdue", "today", "week", "none"] | None = None,
    failure_code: str | None = None,
    limit: int | None = None,
    person: str | None = None,
    phase: str | None = None,
    q: str | None = None,
    repository: str | None = None,
    risk: Literal["low", "normal", "high"] | None = None,
    since: str | None = None,
    sort: Literal["newest", "oldest"] | None = None,
    status: Literal["pending", "running", "paused", "completed", "failed"] | None = None,
    team: str | None = None,
    template: str | None = None,
    until: str | None = None,
) -> Request[models.PaginatedWorkOrderOutList]:
    """List and search work orders, newest first."""
    return Request(
        "GET",
        "/api/v1/work-orders",
        query={
            "cursor": cursor,
            "due": due,
            "failure_code": failure_code,
            "limit": limit,
            "person": person,
            "phase": phase,
            "q": q,
            "repository": repository,
            "risk": risk,
            "since": since,
            "sort": sort,
            "status": status,
            "team": team,
            "template": template,
            "until": until,
        },
    )


def create_work_order(body: models.WorkOrderIn) -> Request[models.WorkOrderOut]:
    """Make a work order and start it."""
    return Request("POST", "/api/v1/work-orders", body=body)


def get_work_order(order_id: str) -> Request[models.WorkOrderOut]:
    """Read a work order."""
    return Request("GET", address("/api/v1/work-orders/{order_id}", order_id))


def ask_again_for_work_order(order_id: str) -> Request[models.WorkOrderOut]:
    """Ask for a work order again that was cancelled, failed or expired."""
    return Request("POST", address("/api/v1/work-orders/{order_id}/again", order_id))


def list_artifacts(
    order_id: str, *, cursor: str | None = None, limit: int | None = None
) -> Request[models.PaginatedArtifactOutList]:
    """What the steps of an order kept, newest first."""
    return Request(
        "GET",
        address("/api/v1/work-orders/{order_id}/artifacts", order_id),
        query={"cursor": cursor, "limit": limit},
    )


def cancel_work_order(order_id: str, body: models.CancelIn) -> Request[models.Success]:
    """End a work order."""
    return Request("POST", address("/api/v1/work-orders/{order_id}/cancel", order_id), body=body)


def look_at_work_order_erasure(order_id: str) -> Request[models.ProspectOut]:
    """What erasing a work order would take away."""
    return Request("GET", address("/api/v1/work-orders/{order_id}/erasure", order_id))


def erase_work_order(order_id: str, body: models.ErasureIn) -> Request[models.ErasureOut]:
    """Erase a work order for good."""
    return Request("POST", address("/api/v1/work-orders/{order_id}/erasure", order_id), body=body)


def get_pause_state(order_id: str) -> Request[models.PauseStateOut | None]:
    """What the work order waits for."""
    return Request("GET", address("/api/v1/work-orders/{order_id}/pause-state", order_id))


def change_work_order_priority(
    order_id: str, body: models.PriorityIn
) -> Request[models.WorkOrderOut]:
    """Change the priority of a work order that has not ended."""
    return Request("POST", address("/api/v1/work-orders/{order_id}/priority", order_id), body=body)


def resume_work_order(
    order_id: str, body: models.DecisionIn
) -> Request[models.Resumed | models.VotedOut]:
    """Approve, revise or cancel."""
    return Request("POST", address("/api/v1/work-orders/{order_id}/resume", order_id), body=body)


def retry_work_order(order_id: str) -> Request[models.WorkOrderOut]:
    """Go on with a failed work order from its last good checkpoint."""
    return Request("POST", address("/api/v1/work-orders/{order_id}/retry", order_id))


def suspend_work_order(order_id: str, body: models.SuspendIn) -> Request[models.Success]:
    """Stop at the next step boundary."""
    return Request("POST", address("/api/v1/work-orders/{order_id}/suspend", order_id), body=body)


def get_work_order_time(order_id: str) -> Request[models.OrderTimeOut]:
    """Where a work order's time went."""
    return Request("GET", address("/api/v1/work-orders/{order_id}/time", order_id))


def list_workflows(
    *,
    cursor: str | None = None,
    lifecycle: Literal["completed", "expired", "failed", "resumed", "running", "waiting_external"]
    | None = None,
    limit: int | None = None,
) -> Request[models.PaginatedWorkflowListedList]:
    """List runs by where they are, newest first."""
    return Request(
        "GET", "/api/v1/workflows", query={"cursor": cursor, "lifecycle": lifecycle, "limit": limit}
    )


def open_wait(body: models.WaitIn) -> Request[models.WorkflowOut]:
    """Let a run of your engine wait for an answer."""
    return Request("POST", "/api/v1/workflows/wait", body=body)


def count_waits(*, hours: int | None = None) -> Request[models.CountsOut]:
    """Count what waits, was resumed and has expired."""
    return Request("GET", "/api/v1/workflows/wait/counts", query={"hours": hours})


def get_workflow(run_id: str) -> Request[models.WorkflowOut]:
    """Where a run is."""
    return Request("GET", address("/api/v1/workflows/{run_id}", run_id))


def resume_workflow(run_id: str, body: models.ResumeEventIn) -> Request[models.IngestedOut]:
    """Answer what a run waits for."""
    return Request("POST", address("/api/v1/workflows/{run_id}/resume", run_id), body=body)


def resume_and_continue_workflow(
    run_id: str, body: models.ResumeEventIn
) -> Request[models.IngestedOut]:
    """Answer, and get what to go on with."""
    return Request(
        "POST", address("/api/v1/workflows/{run_id}/resume-and-continue", run_id), body=body
    )


def report_workflow(run_id: str, body: models.ReportedIn) -> Request[models.WorkflowOut]:
    """Say where a run of your engine is behind the answer."""
    return Request("POST", address("/api/v1/workflows/{run_id}/status", run_id), body=body)
