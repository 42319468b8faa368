"""The bodies of requests and answers, made by client/generate.py: do not edit."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class AnswerGiven(TypedDict):
    decision_id: str
    decision: str
    payload: dict[str, Any] | None
    feedback: str
    decided_by: str | None
    external: str | None
    decided_at: str
    via: str


class ArtifactOut(TypedDict):
    id: str
    run_id: str
    thread_id: str
    step: str
    loop_num: int
    name: str
    media: str
    filename: str
    size: int
    cut: bool
    digest: str
    created_at: str
    dropped_at: str | None


class ArtifactWhole(TypedDict):
    id: str
    run_id: str
    thread_id: str
    step: str
    loop_num: int
    name: str
    media: str
    filename: str
    size: int
    cut: bool
    digest: str
    created_at: str
    dropped_at: str | None
    content: str


class BatchChoiceIn(TypedDict):
    action: ActionEnum
    orders: NotRequired[list[str]]
    query: NotRequired[str]


class BatchIn(TypedDict):
    action: ActionEnum
    orders: NotRequired[list[str]]
    query: NotRequired[str]
    reason: NotRequired[str]
    step: NotRequired[str]


class BatchLineOut(TypedDict):
    order_id: str
    run_id: str
    code: str
    words: str
    reached: bool


class BatchOut(TypedDict):
    id: str
    action: ActionEnum
    by: str
    reason: str
    query: str
    step: str
    made_at: str
    ended_at: str | None
    lines: list[BatchLineOut]


class BatchPreviewOut(TypedDict):
    orders: list[ChosenOrderOut]
    left_out: list[LeftOutOrderOut]
    more: bool
    steps: list[str]


class BranchOut(TypedDict):
    number: int
    start: str | None
    first: str
    tip: str
    status: str
    run_id: str
    checkpoints: int
    is_current: bool


class BulkIn(TypedDict):
    decision: DecisionEnum
    pauses: list[ChosenIn]


class BulkOut(TypedDict):
    decided: int
    results: list[BulkResult]


class BulkResult(TypedDict):
    pause_id: str
    decided: bool
    decision_id: str | None
    code: str
    detail: str


class CancelIn(TypedDict):
    reason: NotRequired[str]


class ChangeOut(TypedDict):
    kind: ChangeOutKindEnum
    path: str
    was_at: str
    old: ValueOut | None
    new: ValueOut | None
    diff: list[str]
    note: str


class CheckpointOut(TypedDict):
    id: str
    thread_id: str
    run_id: str
    parent_id: str | None
    status: CheckpointStatusEnum
    node_id: str
    next_step: str
    loop_num: int
    completed_nodes: int
    total_nodes: int
    is_snapshot: bool
    schema_version: int
    digest: str
    size: int
    metadata: dict[str, Any]
    created_at: str
    imported: bool


class CheckpointWhole(TypedDict):
    id: str
    thread_id: str
    run_id: str
    parent_id: str | None
    status: CheckpointStatusEnum
    node_id: str
    next_step: str
    loop_num: int
    completed_nodes: int
    total_nodes: int
    is_snapshot: bool
    schema_version: int
    digest: str
    size: int
    metadata: dict[str, Any]
    created_at: str
    imported: bool
    state: dict[str, Any]


class ChildCountsOut(TypedDict):
    """How the child runs of a run's last gather stand."""

    total: int
    queued: int
    live: int
    ended: int
    failed: int


class ChoiceIn(TypedDict):
    name: str
    label: str


class ChosenIn(TypedDict):
    """As an answer of its own names what was looked at (`fields.DecisionIn`)."""

    id: NotRequired[str]
    pause_id: NotRequired[str]
    revision: NotRequired[int | None]
    content_digest: NotRequired[str]


class ChosenOrderOut(TypedDict):
    id: str
    title: str


class ClaimIn(TypedDict):
    take_over: NotRequired[bool]


class ClaimOut(TypedDict):
    by: str
    until: str


class ClockChangeOut(TypedDict):
    at: str
    words: str
    touches: bool


class ComingOut(TypedDict):
    at: str
    local: str
    note: str


class CommentIn(TypedDict):
    text: str
    ask: NotRequired[list[str]]
    path: NotRequired[str]
    line: NotRequired[int | None]
    side: NotRequired[SideEnum]


class CommentOut(TypedDict):
    id: str
    pause_id: str
    by: str
    by_name: str
    text: str
    path: str
    line: int | None
    side: str
    made_at: str
    withdrawn_at: str | None
    mentions: list[str]
    asked: list[str]


class CopyIn(TypedDict):
    slug: str
    title: NotRequired[str]
    version: NotRequired[int]


class CountsOut(TypedDict):
    waiting_external: int
    resumed: int
    expired: int
    since: str


class DecisionIn(TypedDict):
    decision: str
    feedback: NotRequired[str | None]
    revision: NotRequired[int | None]
    content_digest: NotRequired[str | None]
    input: NotRequired[Any]
    edited_content: NotRequired[str | None]
    stage: NotRequired[str | None]
    comments_until: NotRequired[str | None]
    pause_id: NotRequired[str | None]
    id: NotRequired[str | None]


class DecisionOut(TypedDict):
    id: str
    pause_id: str
    action: str
    feedback: str
    input: dict[str, Any] | None
    edited_content: str
    decided_by: str | None
    by_name: str
    external: str | None
    data_only: bool
    on_behalf_of: str | None
    for_name: str
    early_at: str | None
    factor: str
    factor_at: str | None
    votes: list[str]
    decided_at: str
    via: ViaEnum
    revision: int
    content_digest: str
    position: int
    digest: str


class DefinitionOut(TypedDict):
    name: str
    description: str
    input_schema: dict[str, Any]
    method: str
    path: str
    query: list[str]


class DefinitionsOut(TypedDict):
    tools: list[DefinitionOut]


class DeliveryOut(TypedDict):
    id: str
    pause_id: str | None
    run_id: str | None
    occasion: OccasionEnum
    channel: ChannelEnum
    to: str
    status: DeliveryOutStatusEnum
    attempts: int
    next_at: str
    error: str
    made_at: str
    sent_at: str | None


class DiffOut(TypedDict):
    old: str
    new: str
    fields_changed: list[FieldOut]
    added: int
    removed: int
    changed: int
    more: int
    changes: list[ChangeOut]


class DryRunIn(TypedDict):
    """The fields of a template that are not saved yet may come along; others are as saved."""

    version: NotRequired[int]
    title: NotRequired[str]
    description: NotRequired[str]
    steps: NotRequired[list[dict[str, Any]]]
    input_schema: NotRequired[dict[str, Any]]
    state_schema: NotRequired[dict[str, Any]]
    reducers: NotRequired[dict[str, str]]
    needs_repository: NotRequired[bool]
    frequency: NotRequired[FrequencyEnum]
    retention: NotRequired[dict[str, Any]]
    size_budget: NotRequired[int | None]
    input: NotRequired[dict[str, Any]]
    request: NotRequired[str]
    slug: NotRequired[Any]
    frequency_promise: NotRequired[Any]
    may_order: NotRequired[Any]
    who_may_order: NotRequired[Any]
    can_run: NotRequired[Any]
    lacks: NotRequired[Any]
    warnings: NotRequired[Any]
    newer_in_code: NotRequired[Any]
    enabled: NotRequired[Any]
    default: NotRequired[Any]
    created_at: NotRequired[Any]


class DryRunOut(TypedDict):
    ok: bool
    findings: list[FindingOut]
    steps: list[PlannedStepOut]


class EnabledIn(TypedDict):
    enabled: bool


class EndpointChange(TypedDict):
    enabled: bool


class EndpointIn(TypedDict):
    channel: ChannelEnum
    target: NotRequired[str]
    name: NotRequired[str]
    scope: NotRequired[ScopeEnum]
    team: NotRequired[str]
    occasions: NotRequired[list[OccasionsEnum]]
    templates: NotRequired[list[str]]


class EndpointMade(TypedDict):
    """An endpoint with the secret that it is signed with, shown this once."""

    id: str
    channel: ChannelEnum
    name: str
    whose: str
    occasions: list[str]
    templates: list[str]
    enabled: bool
    why_disabled: str
    made_at: str
    secret: str


class EndpointOut(TypedDict):
    """Where it leads is not told: an address may hold secrets."""

    id: str
    channel: ChannelEnum
    name: str
    whose: str
    occasions: list[str]
    templates: list[str]
    enabled: bool
    why_disabled: str
    made_at: str


class ErasureIn(TypedDict):
    confirm: str
    reason: str


class ErasureOut(TypedDict):
    id: str
    thread_id: str
    erased_by: str
    reason: str
    erased_at: str
    counts: dict[str, int]


class EventOut(TypedDict):
    event: EventKind | str
    data: dict[str, Any]
    seq: int
    run_id: str | None
    thread_id: str
    at: str
    imported: NotRequired[bool]
    channel: NotRequired[str]


class ExplainIn(TypedDict):
    tool: str
    arguments: NotRequired[dict[str, Any]]
    rules: NotRequired[list[Any] | None]
    template: NotRequired[str]
    step: NotRequired[str]


class ExtendIn(TypedDict):
    until: str
    reason: str


class FieldChangeOut(TypedDict):
    kind: str
    path: str
    old: ShownValueOut | None
    new: ShownValueOut | None
    was_at: str
    lines: list[str]
    note: str


class FieldOut(TypedDict):
    name: str
    old: str
    new: str


class FindingOut(TypedDict):
    level: LevelEnum
    code: str
    field: str
    text: str


class ForkIn(TypedDict):
    reason: str
    state: NotRequired[dict[str, Any] | None]
    step_around: NotRequired[bool]


class HandOverIn(TypedDict):
    to: str
    reason: str


class IngestedOut(TypedDict):
    """Where a run is. For the OpenAPI page; `primitives.document` makes it."""

    run_id: str
    status: str
    lifecycle: LifecycleEnum
    node_id: str
    blocking_reason: str | None
    required_inputs: dict[str, Any] | None
    next_deadline: str | None
    question: str | None
    answers: list[str]
    attempts: int
    refined: str
    pause_id: str | None
    pause_state: str | None
    state: dict[str, Any]
    answer: AnswerGiven | None
    error: str | None
    failure_code: str | None
    waystation_run_id: str
    thread_id: str
    duplicate: bool
    voted: bool
    kept: KeptAnswer | None


class InputIn(TypedDict):
    input: NotRequired[dict[str, Any] | str | None]
    content: NotRequired[str | None]


class KeptAnswer(TypedDict):
    id: str
    expires_at: str


class KindOut(TypedDict):
    rows: int
    bytes: int


class LedgerPosition(TypedDict):
    holds: bool
    intact: bool
    linked: bool
    shown: bool
    anchor: str | None


class LeftOutOrderOut(TypedDict):
    id: str
    title: str
    why: str


class LeftOutOut(TypedDict):
    messages: NotRequired[int]
    results: NotRequired[int]


class LimitChange(TypedDict):
    """What is left out stays as it is."""

    template: str
    name: NotRequired[str]
    pointer: NotRequired[str]
    most: NotRequired[int]
    rate: NotRequired[str]
    priority: NotRequired[int]
    as_declared: NotRequired[bool]


class LimitIn(TypedDict):
    template: str
    name: NotRequired[str]
    pointer: NotRequired[str]
    most: NotRequired[int]
    rate: NotRequired[str]
    priority: NotRequired[int]


class LimitOut(TypedDict):
    """Of a limit from `work_limits.counted`."""

    id: int
    template: str
    name: str
    pointer: str
    most: int
    rate: str
    priority: int
    off: bool
    declared: dict[str, Any] | None
    changed: bool
    at_work: int
    waiting: int


class MailTaken(TypedDict):
    outcome: str


class MessageOut(TypedDict):
    id: str
    role: str
    content: str
    run_id: str
    loop: int | None
    at: str
    interrupted: bool
    tools: list[ToolCallOut]
    thinking: str
    imported: bool
    left_out: LeftOutOut
    ended: str


class NewRepositoryIn(TypedDict):
    """What is left out is as usual."""

    name: NotRequired[str]
    default_template: NotRequired[str]
    check_command: NotRequired[list[str]]
    author: NotRequired[str]
    use_template_execution: NotRequired[bool]
    base_branch: NotRequired[str]
    push_policy: NotRequired[PushPolicyEnum]
    pull_request_policy: NotRequired[PullRequestPolicyEnum]
    forge: NotRequired[ForgeEnum | BlankEnum]
    forge_url: NotRequired[str]
    forge_project: NotRequired[str]
    credential: NotRequired[str]
    allowed_templates: NotRequired[list[str]]
    use_groups: NotRequired[list[str]]
    delivery_groups: NotRequired[list[str]]
    url: str


class OccurrenceOut(TypedDict):
    id: str
    at: str
    local: str
    until: str | None
    count: int
    status: OccurrenceOutStatusEnum
    why: str
    work_order_id: str | None
    by_hand: bool
    settled_at: str | None


class OrderTimeOut(TypedDict):
    work: float
    people: float
    children: float
    timer: float
    retry: float
    queue: float
    now: NowEnum | None
    steps: list[StepTimeOut]
    complete: bool


class PaginatedArtifactOutList(TypedDict):
    next: str | None
    previous: str | None
    results: list[ArtifactOut]


class PaginatedBatchOutList(TypedDict):
    next: str | None
    previous: str | None
    results: list[BatchOut]


class PaginatedCheckpointOutList(TypedDict):
    next: str | None
    previous: str | None
    results: list[CheckpointOut]


class PaginatedCommentOutList(TypedDict):
    next: str | None
    previous: str | None
    results: list[CommentOut]


class PaginatedDecisionOutList(TypedDict):
    next: str | None
    previous: str | None
    results: list[DecisionOut]


class PaginatedDeliveryOutList(TypedDict):
    next: str | None
    previous: str | None
    results: list[DeliveryOut]


class PaginatedEndpointOutList(TypedDict):
    next: str | None
    previous: str | None
    results: list[EndpointOut]


class PaginatedEventOutList(TypedDict):
    next: str | None
    previous: str | None
    results: list[EventOut]


class PaginatedLimitOutList(TypedDict):
    next: str | None
    previous: str | None
    results: list[LimitOut]


class PaginatedMessageOutList(TypedDict):
    next: str | None
    previous: str | None
    results: list[MessageOut]


class PaginatedOccurrenceOutList(TypedDict):
    next: str | None
    previous: str | None
    results: list[OccurrenceOut]


class PaginatedPauseOutList(TypedDict):
    next: str | None
    previous: str | None
    results: list[PauseOut]


class PaginatedQueuedOutList(TypedDict):
    next: str | None
    previous: str | None
    results: list[QueuedOut]


class PaginatedRepositoryOutList(TypedDict):
    next: str | None
    previous: str | None
    results: list[RepositoryOut]


class PaginatedRunOutList(TypedDict):
    next: str | None
    previous: str | None
    results: list[RunOut]


class PaginatedSavedViewOutList(TypedDict):
    next: str | None
    previous: str | None
    results: list[SavedViewOut]


class PaginatedScheduleOutList(TypedDict):
    next: str | None
    previous: str | None
    results: list[ScheduleOut]


class PaginatedStartDeliveryOutList(TypedDict):
    next: str | None
    previous: str | None
    results: list[StartDeliveryOut]


class PaginatedStartOutList(TypedDict):
    next: str | None
    previous: str | None
    results: list[StartOut]


class PaginatedStepTemplateOutList(TypedDict):
    next: str | None
    previous: str | None
    results: list[StepTemplateOut]


class PaginatedTemplateRowList(TypedDict):
    next: str | None
    previous: str | None
    results: list[TemplateRow]


class PaginatedThreadOutList(TypedDict):
    next: str | None
    previous: str | None
    results: list[ThreadOut]


class PaginatedVersionRowList(TypedDict):
    next: str | None
    previous: str | None
    results: list[VersionRow]


class PaginatedWorkOrderOutList(TypedDict):
    next: str | None
    previous: str | None
    results: list[WorkOrderOut]


class PaginatedWorkflowListedList(TypedDict):
    next: str | None
    previous: str | None
    results: list[WorkflowListed]


class PauseOut(TypedDict):
    """A pause with what a client needs to show and answer it."""

    id: str
    agent_work_order_id: str | None
    run_id: str
    step: str
    pause_phase: str
    question: str
    summary: str
    pause_content: str
    patch: str | None
    facts: dict[str, Any]
    effects: list[str]
    revision: int
    max_revisions: int
    content_digest: str
    answers: list[str]
    kind: PauseKindEnum
    calls: list[dict[str, Any]]
    required_inputs: dict[str, Any]
    known: dict[str, Any]
    answers_without_input: list[str]
    attempts: int
    refined: str
    review: ReviewOut
    edited_content: str | None
    status: PauseStatusEnum
    state: str
    pause_timestamp: str
    resume_timestamp: str | None
    user_decision: str | None
    user_feedback: str | None
    decided_by: str | None
    external: str | None
    created_at: str
    updated_at: str
    deadline_at: str | None
    deadline_outcome: DeadlineOutcomeEnum | None
    extendable_until: str | None
    next_deadline: str | None
    reminders: list[str]
    stage: int
    asked_outside: list[str]


class PauseStateOut(TypedDict):
    """A pause with what a client needs to show and answer it."""

    id: str
    agent_work_order_id: str | None
    run_id: str
    step: str
    pause_phase: str
    question: str
    summary: str
    pause_content: str
    patch: str | None
    facts: dict[str, Any]
    effects: list[str]
    revision: int
    max_revisions: int
    content_digest: str
    answers: list[str]
    kind: PauseKindEnum
    calls: list[dict[str, Any]]
    required_inputs: dict[str, Any]
    known: dict[str, Any]
    answers_without_input: list[str]
    attempts: int
    refined: str
    review: ReviewOut
    edited_content: str | None
    status: PauseStatusEnum
    state: str
    pause_timestamp: str
    resume_timestamp: str | None
    user_decision: str | None
    user_feedback: str | None
    decided_by: str | None
    external: str | None
    created_at: str
    updated_at: str
    deadline_at: str | None
    deadline_outcome: DeadlineOutcomeEnum | None
    extendable_until: str | None
    next_deadline: str | None
    reminders: list[str]
    stage: int
    asked_outside: list[str]
    also_open: list[str]


class PlannedPauseOut(TypedDict):
    phase: str
    who: str
    people: int | None
    quorum: int
    answers: dict[str, str]
    reminders: list[str]
    stages: list[PlannedStageOut]
    deadline: str | None
    outcome: str
    asks_for_data: bool


class PlannedStageOut(TypedDict):
    at: str
    who: str


class PlannedStepOut(TypedDict):
    name: str
    title: str
    function: str
    skipped_when: dict[str, Any]
    may_ask: bool
    delivers: bool
    pause: PlannedPauseOut | None
    sub_steps: list[dict[str, Any]]


class PresenceIn(TypedDict):
    writing: NotRequired[bool]


class PresenceOut(TypedDict):
    present: list[PresentOut]


class PresentOut(TypedDict):
    name: str
    writing: bool


class PreviewIn(TypedDict):
    cron: str
    zone: NotRequired[str]


class PreviewOut(TypedDict):
    coming: list[ComingOut]
    clock_changes: list[ClockChangeOut]


class PriorityIn(TypedDict):
    priority: int


class Problem(TypedDict):
    """An RFC 9457 problem document. What it holds besides depends on `code`."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    errors: NotRequired[dict[str, Any]]


class ProgressOut(TypedDict):
    """How far a step is, by its own words, or how many of a run's child runs have ended."""

    done: float
    of: float | None
    unit: str


class ProspectOut(TypedDict):
    thread_id: str
    kinds: dict[str, KindOut]


class QueuedOut(TypedDict):
    """A message that waits for its turn, or did."""

    id: str
    status: QueuedOutStatusEnum
    place: int
    by: str
    template: str
    input: dict[str, Any]
    interrupts: bool
    run_id: str | None
    refused: str
    created_at: str
    closed_at: str | None


class ReasonOut(TypedDict):
    """Why one run stands where it stands."""

    run_id: str
    child_name: str
    code: WhyCodeEnum
    title: str
    words: str
    details: list[str]
    since: str | None
    sent_at: str | None
    until: str | None
    then: str
    advice: str
    pause_id: str | None
    holders: list[str]
    other_holders: int


class ReceiptOut(TypedDict):
    """A decision, what was shown to who took it, and how it stands in its ledger."""

    id: str
    action: str
    feedback: str
    input: dict[str, Any] | None
    decided_by: NotRequired[str | None]
    external: str | None
    by_name: str
    for_name: str
    early_at: str | None
    data_only: bool
    factor: str
    factor_at: str | None
    on_behalf_of: NotRequired[str | None]
    decided_at: str
    via: str
    revision: int
    content_digest: str
    goes_on_at: str | None
    undoes: str | None
    undone_by: str | None
    pause_id: str | None
    erased: str | None
    ledger: str
    position: int
    previous: str
    digest: str
    evidence: str
    shown: dict[str, Any] | None
    verification: LedgerPosition


class ReportedIn(TypedDict):
    status: ReportedEnum


class RepositoryIn(TypedDict):
    """What is left out stays as it is."""

    name: NotRequired[str]
    default_template: NotRequired[str]
    check_command: NotRequired[list[str]]
    author: NotRequired[str]
    use_template_execution: NotRequired[bool]
    base_branch: NotRequired[str]
    push_policy: NotRequired[PushPolicyEnum]
    pull_request_policy: NotRequired[PullRequestPolicyEnum]
    forge: NotRequired[ForgeEnum | BlankEnum]
    forge_url: NotRequired[str]
    forge_project: NotRequired[str]
    credential: NotRequired[str]
    allowed_templates: NotRequired[list[str]]
    use_groups: NotRequired[list[str]]
    delivery_groups: NotRequired[list[str]]


class RepositoryOut(TypedDict):
    id: str
    url: str
    name: str
    default_template: str
    check_command: Any
    author: str
    use_template_execution: bool
    base_branch: str
    push_policy: PushPolicyEnum
    pull_request_policy: PullRequestPolicyEnum
    forge: ForgeEnum | BlankEnum
    forge_url: str
    forge_project: str
    credential: str
    allowed_templates: list[str]
    use_groups: list[str]
    delivery_groups: list[str]
    warnings: list[str]
    created_at: str


class ResumeEventIn(TypedDict):
    run_id: NotRequired[str]
    input_type: NotRequired[str]
    node_id: NotRequired[str]
    pause_id: NotRequired[str]
    revision: NotRequired[int | None]
    content_digest: NotRequired[str]
    stage: NotRequired[str]
    payload: NotRequired[Any]
    sender_metadata: NotRequired[dict[str, Any]]


class ResumeIn(TypedDict):
    checkpoint_id: NotRequired[str | None]
    reason: NotRequired[str]


class Resumed(TypedDict):
    """Whether it was done, and what was recorded."""

    success: bool
    decision: DecisionOut


class ReviewOut(TypedDict):
    """Who answers a question, and whether the caller may."""

    reviewers: dict[str, Any]
    also: list[dict[str, Any]]
    self_approval: bool
    reason_required: list[str]
    edits: bool
    quorum: int
    stages: list[ReviewStageOut]
    stage: str
    votes: list[VoteOut]
    claim: ClaimOut | None
    may_answer: list[str]
    why_not: dict[str, WhyNot]
    on_behalf_of: str | None
    handed_to: str | None


class ReviewStageOut(TypedDict):
    """A stage of the review: a question to people of its own."""

    name: str
    title: str
    question: str
    reviewers: dict[str, Any]
    quorum: int
    after: list[str]
    status: ReviewStageOutStatusEnum
    votes: int
    deadline: dict[str, Any] | None
    due_at: str | None
    required_inputs: dict[str, Any]


class RunIn(TypedDict):
    template: NotRequired[str]
    workflow_uri: NotRequired[str]
    input: NotRequired[dict[str, Any] | str | None]
    state: NotRequired[dict[str, Any] | None]
    resume_from: NotRequired[str]
    checkpoint_id: NotRequired[str | None]
    interrupt_before: NotRequired[list[str]]
    interrupt_after: NotRequired[list[str]]
    replaces: NotRequired[str]
    reason: NotRequired[str]
    step_around: NotRequired[bool]


class RunOut(TypedDict):
    id: str
    thread_id: str
    work_order_id: str | None
    parent_run_id: str | None
    child_name: str
    template: str
    template_version: int
    status: RunStatusEnum
    state: StateEnum
    input: dict[str, Any]
    retry_of: str | None
    error: str
    failure_code: str
    awaited: int
    children: ChildCountsOut | None
    sleeping_until: str | None
    progress: ProgressOut | None
    pending_input: dict[str, Any] | None
    created_at: str
    started_at: str | None
    ended_at: str | None
    imported_at: str | None


class RunWhyOut(TypedDict):
    """What a run waits for."""

    run_id: str
    status: RunStatusEnum
    reasons: list[ReasonOut]


class SaidOut(TypedDict):
    id: str
    run: RunOut
    how: HowEnum
    decision: str | None
    queued: QueuedOut | None
    interrupted_run_id: str | None
    resume_offer: dict[str, Any] | None


class SavedViewChange(TypedDict):
    name: NotRequired[str]
    query: NotRequired[str]
    team: NotRequired[str | None]


class SavedViewIn(TypedDict):
    list: ListEnum
    name: str
    query: NotRequired[str]
    team: NotRequired[str | None]


class SavedViewOut(TypedDict):
    id: str
    list: ListEnum
    name: str
    query: str
    team: str | None
    owner: str
    address: str
    made_at: str


class ScheduleChange(TypedDict):
    """What is left out stays as it is."""

    name: str
    template: str
    title: NotRequired[str]
    user_request: NotRequired[str]
    input: NotRequired[dict[str, Any]]
    repository_url: NotRequired[str]
    team: NotRequired[str | None]
    priority: NotRequired[int]
    cron: str
    zone: NotRequired[str]
    until: NotRequired[str]
    overlap: NotRequired[OverlapEnum]
    catch_up: NotRequired[CatchUpEnum]
    catch_up_most: NotRequired[int]
    as_declared: NotRequired[bool]
    enabled: NotRequired[bool]


class ScheduleIn(TypedDict):
    name: str
    template: str
    title: NotRequired[str]
    user_request: NotRequired[str]
    input: NotRequired[dict[str, Any]]
    repository_url: NotRequired[str]
    team: NotRequired[str | None]
    priority: NotRequired[int]
    cron: str
    zone: NotRequired[str]
    until: NotRequired[str]
    overlap: NotRequired[OverlapEnum]
    catch_up: NotRequired[CatchUpEnum]
    catch_up_most: NotRequired[int]


class ScheduleOut(TypedDict):
    id: str
    name: str
    template: str
    title: str
    user_request: str
    input: dict[str, Any]
    repository_url: str
    team: str | None
    priority: int
    cron: str
    zone: str
    until: str
    overlap: OverlapEnum
    catch_up: CatchUpEnum
    catch_up_most: int
    enabled: bool
    stopped_because: str
    declared: dict[str, Any] | None
    changed: bool
    coming: list[str]
    made_at: str


class ShownValueOut(TypedDict):
    text: str
    size: int
    digest: str


class SnoozeIn(TypedDict):
    until: str | None


class StartAnswer(TypedDict):
    delivery_id: str
    work_order_id: str | None


class StartChange(TypedDict):
    enabled: bool


class StartDeliveryOut(TypedDict):
    id: str
    delivery_id: str
    started: bool
    work_order_id: str | None
    code: str
    why: str
    at: str


class StartIn(TypedDict):
    name: str
    template: str
    title: NotRequired[str]
    user_request: NotRequired[str]
    request_pointer: NotRequired[str]
    input: NotRequired[dict[str, Any]]
    mapping: NotRequired[dict[str, str]]
    repository_url: NotRequired[str]
    team: NotRequired[str | None]
    priority: NotRequired[int]


class StartMade(TypedDict):
    id: str
    name: str
    address: str
    enabled: bool
    template: str
    title: str
    user_request: str
    request_pointer: str
    input: dict[str, Any]
    mapping: dict[str, str]
    repository_url: str
    team: str | None
    priority: int
    made_at: str
    secret: str


class StartOut(TypedDict):
    id: str
    name: str
    address: str
    enabled: bool
    template: str
    title: str
    user_request: str
    request_pointer: str
    input: dict[str, Any]
    mapping: dict[str, str]
    repository_url: str
    team: str | None
    priority: int
    made_at: str


class StateOut(TypedDict):
    checkpoint_id: str
    next_step: str
    values: dict[str, Any]


class StepDifferenceOut(TypedDict):
    name: str
    kind: str
    was_at: int | None
    is_at: int | None
    moved: bool
    changes: list[FieldChangeOut]


class StepFunctionOut(TypedDict):
    name: str
    version: int
    summary: str
    asks: bool
    delivers: bool
    loops: bool
    needs_request: bool
    uses_models: bool
    config_schema: dict[str, Any] | None
    reads_schema: dict[str, Any] | None
    writes_schema: dict[str, Any] | None


class StepFunctionsOut(TypedDict):
    functions: list[StepFunctionOut]


class StepTemplateIn(TypedDict):
    version: NotRequired[int]
    title: str
    function: NotRequired[str]
    config: NotRequired[dict[str, Any]]
    sub_steps: NotRequired[list[dict[str, Any]]]
    slug: NotRequired[Any]
    warnings: NotRequired[Any]
    newer_in_code: NotRequired[Any]
    created_at: NotRequired[Any]


class StepTemplateOut(TypedDict):
    slug: str
    version: int
    title: str
    function: str
    config: Any
    sub_steps: Any
    warnings: list[str]
    newer_in_code: str
    created_at: str


class StepTimeOut(TypedDict):
    work: float
    people: float
    children: float
    timer: float
    retry: float
    queue: float
    step: str


class Success(TypedDict):
    success: bool


class SuspendIn(TypedDict):
    reason: NotRequired[str]


class TakeOverIn(TypedDict):
    version: int


class TeamsSaid(TypedDict):
    type: TypeEnum
    text: str


class TemplateExecutionIn(TypedDict):
    use_template_execution: bool


class TemplateIn(TypedDict):
    version: NotRequired[int]
    title: NotRequired[str]
    description: NotRequired[str]
    steps: NotRequired[list[dict[str, Any]]]
    input_schema: NotRequired[dict[str, Any]]
    state_schema: NotRequired[dict[str, Any]]
    reducers: NotRequired[dict[str, str]]
    needs_repository: NotRequired[bool]
    frequency: NotRequired[FrequencyEnum]
    retention: NotRequired[dict[str, Any]]
    size_budget: NotRequired[int | None]
    default: NotRequired[bool]
    slug: NotRequired[Any]
    frequency_promise: NotRequired[Any]
    may_order: NotRequired[Any]
    who_may_order: NotRequired[Any]
    can_run: NotRequired[Any]
    lacks: NotRequired[Any]
    warnings: NotRequired[Any]
    newer_in_code: NotRequired[Any]
    enabled: NotRequired[Any]
    created_at: NotRequired[Any]


class TemplateOut(TypedDict):
    """`context` holds the person who reads as `by` too."""

    slug: str
    version: int
    title: str
    description: str
    steps: Any
    input_schema: Any
    state_schema: Any
    reducers: Any
    needs_repository: bool
    frequency: FrequencyEnum
    frequency_promise: str
    retention: Any
    size_budget: int | None
    may_order: bool
    who_may_order: str
    can_run: bool
    lacks: str
    warnings: list[str]
    newer_in_code: str
    enabled: bool
    default: bool
    created_at: str


class TemplateRow(TypedDict):
    """Of the list: what may be ordered, and why what may not."""

    slug: str
    version: int
    title: str
    description: str
    needs_repository: bool
    may_order: bool
    refusal: str
    can_run: bool
    lacks: str
    created_at: str


class ThreadChangeIn(TypedDict):
    when_busy: WhenBusyEnum


class ThreadIn(TypedDict):
    title: NotRequired[str]
    team: NotRequired[str | None]
    when_busy: NotRequired[WhenBusyEnum]
    user_id: NotRequired[str]
    session_id: NotRequired[str]


class ThreadOut(TypedDict):
    id: str
    title: str
    owner: str
    team: str | None
    work_order_id: str | None
    head: str | None
    run_id: str | None
    when_busy: WhenBusyEnum
    user_id: str
    session_id: str
    last_seq: int
    created_at: str
    imported_at: str | None


class ToolCallOut(TypedDict):
    id: str
    tool: str
    arguments: Any
    result: str
    status: str
    was: Any
    ms: int | None


class ToolOut(TypedDict):
    name: str
    description: str
    risk: RiskEnum
    parameters: dict[str, Any]
    editable: list[str]
    rules: list[dict[str, Any]]


class ToolsOut(TypedDict):
    tools: list[ToolOut]


class TraceIn(TypedDict):
    traceId: str
    promptId: str
    response: Any


class TraceOut(TypedDict):
    success: bool
    traceId: str
    promptId: str
    decision: str


class TreeOut(TypedDict):
    branches: list[BranchOut]
    older: str | None


class ValueOut(TypedDict):
    text: str
    size: int
    digest: str


class VerdictOut(TypedDict):
    tool: str
    risk: RiskEnum
    ask: bool
    why: str
    rule: dict[str, Any] | None
    place: str
    offered: bool


class VersionDifferencesOut(TypedDict):
    old: int
    new: int | None
    total: int
    fields_changed: list[FieldChangeOut]
    steps: list[StepDifferenceOut]


class VersionRow(TypedDict):
    version: int
    title: str
    from_code: bool
    created_at: str


class VoteOut(TypedDict):
    """An approval that is counted."""

    by: str | None
    external: str | None
    on_behalf_of: str | None
    stage: str
    action: str
    feedback: str
    voted_at: str
    via: ViaEnum
    digest: str


class VotedOut(TypedDict):
    """That an approval was recorded and others are still missing."""

    success: bool
    decided: bool
    votes: int
    quorum: int
    vote: VoteOut


class WaitIn(TypedDict):
    run_id: str
    node_id: NotRequired[str]
    blocking_reason: NotRequired[str]
    state: NotRequired[dict[str, Any]]
    required_inputs: NotRequired[dict[str, Any]]
    question: NotRequired[str]
    content: NotRequired[str]
    choices: NotRequired[list[ChoiceIn]]
    reviewers: NotRequired[Any]
    deadline: NotRequired[Any]
    next_deadline: NotRequired[str | None]
    review: NotRequired[dict[str, Any]]
    recipients: NotRequired[list[str]]
    prompt_id: NotRequired[str]
    key: NotRequired[str]
    valid_for: NotRequired[int | None]
    team: NotRequired[str]
    callback_url: NotRequired[str]
    callback_secret: NotRequired[str]
    status: NotRequired[Any]


class WhyNot(TypedDict):
    code: str
    detail: str


class WorkOrderIn(TypedDict):
    template: NotRequired[str]
    title: NotRequired[str]
    user_request: NotRequired[str]
    input: NotRequired[dict[str, Any]]
    repository_url: NotRequired[str]
    team: NotRequired[str | None]
    priority: NotRequired[int]
    interrupt_before: NotRequired[list[str]]
    interrupt_after: NotRequired[list[str]]


class WorkOrderOut(TypedDict):
    """Of an order from `WorkOrder.objects.shown_to`."""

    id: str
    agent_work_order_id: str
    title: str
    template: str
    template_version: int
    definition_digest: str
    status: WorkOrderOutStatusEnum
    current_phase: str
    user_request: str
    input: dict[str, Any]
    repository_url: str
    branch: str
    error_message: str | None
    failure_code: str | None
    sleeping_until: str | None
    children: ChildCountsOut | None
    progress: ProgressOut | None
    git_commit_count: int
    github_pull_request_url: str | None
    usage: dict[str, Any]
    checkpoint_data: dict[str, Any]
    last_checkpoint: str | None
    thread_id: str
    run_id: str | None
    created_by: str
    created_at: str
    again_of: str | None
    asked_again_as: str | None
    waits_for: str | None
    priority: int


class WorkflowListed(TypedDict):
    run_id: str
    lifecycle: LifecycleEnum
    blocking_reason: str | None
    next_deadline: str | None
    pause_id: str | None
    waystation_run_id: str
    thread_id: str
    created_at: str


class WorkflowOut(TypedDict):
    """Where a run is. For the OpenAPI page; `primitives.document` makes it."""

    run_id: str
    status: str
    lifecycle: LifecycleEnum
    node_id: str
    blocking_reason: str | None
    required_inputs: dict[str, Any] | None
    next_deadline: str | None
    question: str | None
    answers: list[str]
    attempts: int
    refined: str
    pause_id: str | None
    pause_state: str | None
    state: dict[str, Any]
    answer: AnswerGiven | None
    error: str | None
    failure_code: str | None
    waystation_run_id: str
    thread_id: str


ActionEnum = Literal["retry", "cancel", "fork"]

BlankEnum = Literal[""]

CatchUpEnum = Literal["latest", "all", "none"]

ChangeOutKindEnum = Literal["added", "removed", "changed"]

ChannelEnum = Literal["email", "apprise", "slack", "telegram", "webhook"]

CheckpointStatusEnum = Literal["active", "pending_input", "completed", "failed", "cancelled"]

DeadlineOutcomeEnum = Literal["expire", "cancel", "escalate", "approve"]

DecisionEnum = Literal["approve", "cancel"]

DeliveryOutStatusEnum = Literal["queued", "sending", "sent", "dead", "cancelled"]

EventKind = Literal[
    "run_started",
    "step_started",
    "step_completed",
    "streaming_chunk",
    "tool_call_started",
    "tool_call_completed",
    "checkpoint_created",
    "approval_requested",
    "approval_received",
    "await_human_input",
    "run_paused",
    "run_resumed",
    "run_completed",
    "run_failed",
    "run_cancelled",
    "run_expired",
    "pause_updated",
    "log",
]

ForgeEnum = Literal["github", "gitlab"]

Forked = WorkOrderOut | RunOut

FrequencyEnum = Literal["step", "nodes", "loops", "failure", "off"]

HowEnum = Literal[
    "started", "resumed", "answered", "voted", "asked", "following", "queued", "interrupted"
]

LevelEnum = Literal["error", "note"]

LifecycleEnum = Literal["running", "waiting_external", "resumed", "expired", "completed", "failed"]

ListEnum = Literal["inbox", "orders", "threads", "history"]

NowEnum = Literal["work", "people", "children", "timer", "retry", "queue"]

OccasionEnum = Literal[
    "asked",
    "refined",
    "reminded",
    "escalated",
    "mentioned",
    "answered",
    "cancelled",
    "expired",
    "replied",
    "order_completed",
    "order_failed",
    "order_cancelled",
    "order_expired",
    "test",
    "account",
]

OccasionsEnum = Literal[
    "asked",
    "refined",
    "reminded",
    "escalated",
    "mentioned",
    "answered",
    "cancelled",
    "expired",
    "replied",
    "order_completed",
    "order_failed",
    "order_cancelled",
    "order_expired",
    "test",
]

OccurrenceOutStatusEnum = Literal["due", "started", "skipped", "refused"]

OverlapEnum = Literal["skip", "queue", "allow"]

PauseKindEnum = Literal["approval", "input", "tools", "external"]

PauseStatusEnum = Literal["active", "resolved"]

PullRequestPolicyEnum = Literal["never", "draft", "ready"]

PushPolicyEnum = Literal["never", "asked", "branch"]

QueuedOutStatusEnum = Literal["waiting", "begun", "withdrawn", "refused"]

ReportedEnum = Literal["running", "completed", "failed"]

ReviewStageOutStatusEnum = Literal["waiting", "open", "complete"]

RiskEnum = Literal["low", "normal", "high"]

RunStatusEnum = Literal[
    "pending", "running", "paused", "completed", "failed", "cancelled", "expired"
]

ScopeEnum = Literal["me", "team", "everybody"]

SideEnum = Literal["old", "new"]

StateEnum = Literal[
    "pending", "running", "paused", "completed", "failed", "cancelled", "expired", "pending_input"
]

TypeEnum = Literal["message"]

ViaEnum = Literal[
    "page",
    "rest",
    "admin",
    "command",
    "socket",
    "link",
    "webhook",
    "mail",
    "slack",
    "teams",
    "telegram",
    "mcp",
    "langgraph",
    "policy",
    "workflow",
]

WhenBusyEnum = Literal["refuse", "queue", "interrupt"]

WhyCodeEnum = Literal[
    "at_work",
    "worker_lost",
    "queued",
    "no_worker",
    "no_sweep",
    "stuck",
    "timer",
    "retry",
    "undo",
    "later",
    "place",
    "held",
    "person",
    "outside",
    "stopped",
    "suspended",
    "children",
    "completed",
    "failed",
    "cancelled",
    "expired",
    "not_begun",
    "turn",
]

WorkOrderOutStatusEnum = Literal["pending", "running", "paused", "completed", "failed"]
