"""What people and programs may ask of the machine: each outer function is one transaction."""

from runs.engine.imported import is_imported
from runs.engine.locks import lock_for_answers
from runs.engine.recovery.code_changes import NotHeld
from runs.engine.start import NothingKept
from runs.git.repositories import OrdersStopped
from runs.services.forks import (
    begin_fork,
    fork,
    too_late_to_fork,
)
from runs.services.pauses import (
    PauseClosed,
    Resumption,
    While,
    check_update,
    expire,
    expire_within,
    goes_on_at,
    resume,
    tell_again,
    unmoved,
)
from runs.services.retries import (
    retry,
    take_up,
)
from runs.services.work_orders import (
    FIRST_STATE,
    InputInvalid,
    accept_code,
    allow_orders,
    cancel,
    cancel_run,
    check_input,
    check_priority,
    check_words,
    submit,
    suspend,
    suspend_run,
)

__all__ = [
    "FIRST_STATE",
    "InputInvalid",
    "NotHeld",
    "NothingKept",
    "OrdersStopped",
    "PauseClosed",
    "Resumption",
    "While",
    "accept_code",
    "allow_orders",
    "begin_fork",
    "cancel",
    "cancel_run",
    "check_input",
    "check_priority",
    "check_update",
    "check_words",
    "expire",
    "expire_within",
    "fork",
    "goes_on_at",
    "is_imported",
    "lock_for_answers",
    "resume",
    "retry",
    "submit",
    "suspend",
    "suspend_run",
    "take_up",
    "tell_again",
    "too_late_to_fork",
    "unmoved",
]
