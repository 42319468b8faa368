"""What a person may ask of a question, an order and a run: the face that every door calls."""

from hitl.decisions.answers import MAX_EDITED, MAX_FEEDBACK, Answer
from hitl.decisions.errors import (
    PAST,
    AlreadyAnswered,
    AnswerInvalid,
    DeadlinePassed,
    NotFound,
    NotPaused,
    RevisionMismatch,
    SeveralQuestions,
)
from hitl.decisions.services.pauses import Judged, check_open, decide, decide_all, judge
from hitl.decisions.services.work_orders import (
    MAX_REASON,
    answer_order,
    answered_before,
    cancel_order,
    end_run,
    fork,
    reason_to_suspend,
    suspend_order,
)
from hitl.decisions.visibility import (
    find_checkpoint,
    find_order,
    find_to_suspend,
    look_at_order,
    open_pause,
    open_pauses,
)

__all__ = [
    "MAX_EDITED",
    "MAX_FEEDBACK",
    "MAX_REASON",
    "PAST",
    "AlreadyAnswered",
    "Answer",
    "AnswerInvalid",
    "DeadlinePassed",
    "Judged",
    "NotFound",
    "NotPaused",
    "RevisionMismatch",
    "SeveralQuestions",
    "answer_order",
    "answered_before",
    "cancel_order",
    "check_open",
    "decide",
    "decide_all",
    "end_run",
    "find_checkpoint",
    "find_order",
    "find_to_suspend",
    "fork",
    "judge",
    "look_at_order",
    "open_pause",
    "open_pauses",
    "reason_to_suspend",
    "suspend_order",
]
