"""The admin: who may open which page, and who may do which action.

What the tables do not know makes a test fail.

To add a model: nothing, where its rows are only looked at; else a line in CHANGED. A page beyond
Django's own: a line in PAGES. An action: a line in ACTIONS.
"""

from __future__ import annotations

from dataclasses import dataclass, field

EVERYTHING = frozenset({"add", "change", "delete"})
CHANGED: dict[str, frozenset[str]] = {
    "runs_template": frozenset({"change"}),
    "runs_repository": EVERYTHING,
    "runs_templateaccess": EVERYTHING,
    "runs_credential": EVERYTHING,
    "runs_worklimit": EVERYTHING,
    "hitl_apitoken": frozenset({"add"}),
    "hitl_inboundsource": frozenset({"add"}),
    "hitl_serviceaccount": frozenset({"add"}),
    "hitl_claimedgroup": EVERYTHING,
    "mfa_authenticator": frozenset({"delete"}),
    "hitl_delegation": frozenset({"add"}),
    "hitl_chataccount": frozenset({"add", "delete"}),
    "auth_user": EVERYTHING,
    "auth_group": EVERYTHING,
}
"""What may be done by its pages to rows of a model, by those who hold the right; to rows of all
others nothing, by nobody.
"""
SUPERUSERS = {"hitl_delegation", "hitl_chataccount", "hitl_serviceaccount"}
"""Models whose rows superusers alone make: a delegation, or an account that answers, may be
anybody's; a service account is given teams.
"""
ALONE = {"hitl_claimedgroup"}
"""Models whose rows superusers alone change and delete as well: they hand out groups."""
STANDARD = {
    "changelist": "view",
    "history": "view",
    "change": "view",
    "add": "add",
    "delete": "delete",
}
"""Django's pages of a model, and the right that each takes."""
OFFICE = {
    "index",
    "app_list",
    "search",
    "login",
    "logout",
    "password_change",
    "password_change_done",
    "autocomplete",
    "jsi18n",
    "view_on_site",
    "",
}
"""Django's pages of no model, for whoever has staff status; "" sends on to another page, or is a
404.
"""
PAGES: dict[str, tuple[str, ...]] = {
    "checkpoints_checkpoint_diff": ("checkpoints.view_checkpoint",),
    "checkpoints_checkpoint_resume": (
        "checkpoints.view_checkpoint",
        "checkpoints.change_checkpoint",
    ),
    "checkpoints_checkpoint_fork": ("checkpoints.view_checkpoint", "checkpoints.change_checkpoint"),
    "checkpoints_thread_export": ("checkpoints.view_thread", "checkpoints.view_event"),
    "auth_user_password_change": ("auth.change_user",),
}
"""Our own pages, and the rights that each takes."""


@dataclass(frozen=True)
class Action:
    """What is done to chosen rows.

    `own`: only to those of threads that the person may see, whatever their rights.
    """

    right: str
    own: bool = True
    fields: dict[str, str] = field(default_factory=dict, hash=False)
    state: str = "paused"
    """In which state there is a row to which it can be done."""


REASON = {"reason": "asked for", "feedback": "shorter"}
ACTIONS: dict[str, Action] = {
    "runs.Pause approve": Action("runs.change_pause"),
    "runs.Pause revise": Action("runs.change_pause", fields=REASON),
    "runs.Pause cancel_order": Action("runs.change_pause"),
    "runs.WorkOrder cancel_order": Action("runs.change_workorder"),
    "runs.WorkOrder retry": Action("runs.change_workorder", state="failed"),
    "runs.Run cancel_order": Action("runs.change_run"),
    "runs.Run retry": Action("runs.change_run", state="failed"),
    "checkpoints.Thread erase": Action(
        "checkpoints.erase_thread", own=False, fields=REASON, state="completed"
    ),
    "hitl.Delivery send_again": Action("hitl.change_delivery", own=False),
    "hitl.Endpoint switch_off": Action("hitl.change_endpoint", own=False),
    "hitl.Endpoint switch_on": Action("hitl.change_endpoint", own=False),
    "runs.Schedule switch_off": Action("runs.change_schedule", own=False, state=""),
    "runs.Schedule switch_on": Action("runs.change_schedule", own=False, state=""),
    "hitl.InboundSource new_secret": Action("hitl.change_inboundsource"),
    "hitl.InboundSource drop_old_secrets": Action("hitl.change_inboundsource"),
    "hitl.InboundSource switch_off": Action("hitl.change_inboundsource"),
    "hitl.InboundSource switch_on": Action("hitl.change_inboundsource"),
    "hitl.ServiceAccount rotate_tokens": Action("superusers alone", own=False, state=""),
    "hitl.ServiceAccount switch_off": Action("superusers alone", own=False, state=""),
    "hitl.ServiceAccount switch_on": Action("superusers alone", own=False, state=""),
    "hitl.ApiToken revoke": Action("hitl.change_apitoken", own=False, state=""),
}
"""`app.Model action` → who may."""
