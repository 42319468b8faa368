"""Doors through which no move goes, and why."""

from __future__ import annotations

from tests.matrix.addresses import API, DELIVERY, ORDER, PAUSE, PRINTED, START, THREAD, VIEW

ERASES = "Ends with nothing left of a thread; tests/hitl/threads/test_erasure.py."
SENDS = "Changes where people are told, and no run."
OWN = "Is about one's own session, tokens or choices, and no run."
SHELL = "Speaks for nobody: whoever has the shell has the machine."
SETTLES = "Settles what orders of a repository may do; the game has no repository."
DESK = "Rights and rows that operators look after; who holds these rights may give any."
DOOR = "Lets whoever holds a secret order as oneself, and nothing else; test_starts.py."
WRITES = "As `PUT templates/workflows`, which is played: the same service, the same right."
OWN_VIEWS = "Keeps what a list was asked, and changes no run."
OPENS = "Opens a question of its own, as `POST workflows/wait`, which is played; or ends that."
LOOKS = "Says what an order would meet; writes nothing."
GRAPH = "As `graph POST threads/…/runs`, which is played: the same functions in other words."
GRAPH_CRONS = "As `POST schedules`, which is played: the same service."
GRAPH_ENDS = "As `POST runs/…/cancel`, which is played: the same service."
GRAPH_OWN = "Makes, tags or hides what clients of one door see or note, and no run."
STILL: dict[str, str] = {
    f"POST {API}work-orders/{ORDER}/erasure": ERASES,
    f"POST {API}threads/{THREAD}/erasure": ERASES,
    "admin checkpoints.Thread erase": ERASES,
    "command erase_thread": ERASES,
    f"POST {API}pauses/{PAUSE}/presence": "Says who looks at a question.",
    f"POST {API}tools/explain": "Says which rule would ask about a call.",
    f"POST {API}endpoints": SENDS,
    f"PATCH {API}endpoints/<end:endpoint_id>": SENDS,
    f"DELETE {API}endpoints/<end:endpoint_id>": SENDS,
    f"POST {API}endpoints/<end:endpoint_id>/secret": SENDS,
    f"POST {API}endpoints/<end:endpoint_id>/test": SENDS,
    f"POST {API}deliveries/{DELIVERY}/again": SENDS,
    f"POST deliveries/{DELIVERY}/again": SENDS,
    "POST notifications/": SENDS,
    "POST templates/steps/<slug:slug>/texts": (
        "Texts that a step sends; no step of the game has any."
    ),
    f"POST {API}templates/workflows/<slug:slug>/copies": WRITES,
    f"PUT {API}templates/workflows/<slug:slug>/take-over": WRITES,
    f"PUT {API}templates/steps/<slug:slug>/take-over": WRITES,
    f"PUT {API}templates/workflows/<slug:slug>/enabled": DESK,
    f"POST {API}templates/workflows/<slug:slug>/dry-run": LOOKS,
    f"POST {API}schedules/preview": LOOKS,
    f"POST {API}batches/preview": LOOKS,
    "POST templates/new": WRITES,
    "POST templates/<slug:slug>/dry-run": LOOKS,
    "POST templates/<slug:slug>/do": DESK,
    "POST templates/steps/new": WRITES,
    "POST templates/steps/<slug:slug>/": WRITES,
    "POST templates/steps/<slug:slug>/do": WRITES,
    "POST notifications/mail": SENDS,
    "POST notifications/<end:endpoint_id>": SENDS,
    "admin hitl.Delivery send_again": SENDS,
    **dict.fromkeys((f"POST {API}inbound-starts", f"PATCH {API}inbound-starts/{START}",
    f"DELETE {API}inbound-starts/{START}", f"POST {API}inbound-starts/{START}/secret",
    "POST inbound/", f"POST inbound/{START}/do", f"POST {API}inbound/<slug:source>/start"), DOOR),
    "admin runs.Schedule switch_off": DESK,
    "admin runs.Schedule switch_on": DESK,
    "admin hitl.Endpoint switch_off": SENDS,
    "admin hitl.Endpoint switch_on": SENDS,
    "command send_test": SENDS,
    f"graph POST threads/{THREAD}/runs/stream": GRAPH,
    f"graph POST threads/{THREAD}/runs/wait": GRAPH,
    "graph POST runs": GRAPH,
    f"graph POST threads/{THREAD}/commands": GRAPH,
    "graph POST runs/stream": GRAPH,
    f"graph POST threads/{THREAD}/runs/<run:run_id>/cancel": GRAPH_ENDS,
    "graph POST runs/wait": GRAPH,
    "graph POST runs/cancel": GRAPH_ENDS,
    "graph POST agui/<str:assistant_id>": GRAPH,
    "graph POST threads": GRAPH_OWN,
    f"graph PATCH threads/{THREAD}": GRAPH_OWN,
    f"graph DELETE threads/{THREAD}": GRAPH_ENDS,
    f"graph POST threads/{THREAD}/copy": "Makes another thread, whose runs have ended.",
    f"graph DELETE threads/{THREAD}/runs/<run:run_id>": GRAPH_OWN,
    "graph PUT store/items": GRAPH_OWN,
    "graph DELETE store/items": GRAPH_OWN,
    f"graph POST threads/{THREAD}/runs/crons": "Is refused, whoever asks.",
    "graph POST runs/crons": GRAPH_CRONS,
    "graph POST assistants": GRAPH_OWN,
    "graph PATCH assistants/<str:assistant_id>": GRAPH_OWN,
    "graph DELETE assistants/<str:assistant_id>": GRAPH_OWN,
    "graph POST assistants/<str:assistant_id>/latest": GRAPH_OWN,
    **{f"graph {method} runs/crons/<str:cron_id>": GRAPH_CRONS for method in ("PATCH", "DELETE")},
    "tool request_approval": OPENS,
    "tool ask_human": OPENS,
    "tool permission_prompt": OPENS,
    "tool withdraw_request": OPENS,
    "POST tokens/": OWN,
    "POST tokens/connect": OWN,
    "POST tokens/<uuid:token_id>/revoke": OWN,
    **{f"POST {path}": OWN for path in ("login/factor", "admin/login/", "password/forgotten",
    "password/forgotten/<str:uidb36>/<str:key>", "account/password", "account/confirm",
    "account/confirm/code", "account/confirm/key", "account/app", "account/app/remove",
    "account/codes/new", "account/keys/add", "account/keys/<int:pk>/remove",
    "account/keys/<int:pk>/name", "account/elsewhere/<int:pk>/remove", "login/elsewhere/ended",
    "login/saml/back")},
    "admin mfa_authenticator delete": DESK,
    **{f"admin hitl_claimedgroup {what}": DESK for what in ("add", "change", "delete")},
    "POST login": OWN,
    "PUT login": OWN,
    "POST logout": OWN,
    "POST language": OWN,
    "admin hitl_apitoken add": DESK,
    "admin hitl.ApiToken revoke": DESK,
    "command api_token": SHELL,
    "command group": SHELL,
    "command person": SHELL,
    "admin hitl_serviceaccount add": "For superusers alone; a token of one asks and reads.",
    **{f"admin hitl.ServiceAccount {what}": DESK for what in ("rotate_tokens", "switch_off",
    "switch_on")},
    **{f"command service_account {what}": SHELL for what in ("list", "make", "off", "on", "rotate",
    "token")},
    **{f"{method} favicon.ico": "Sends on to a picture." for method in ("POST", "PUT", "PATCH",
    "DELETE")},
    f"POST {API}workflows/<str:run_id>/status": "Notes what another engine says of its run.",
    f"POST {API}repositories": SETTLES,
    f"POST {PRINTED}repositories": SETTLES,
    f"PUT {API}repositories/<repo:repository_id>": SETTLES,
    f"PUT {PRINTED}repositories/<repo:repository_id>/template-execution": SETTLES,
    f"PUT {API}repositories/<repo:repository_id>/template-execution": SETTLES,
    **{f"admin runs_repository {what}": SETTLES for what in ("add", "change", "delete")},
    **{f"admin runs_credential {what}": SETTLES for what in ("add", "change", "delete")},
    **{f"admin runs_worklimit {what}": DESK for what in ("add", "change", "delete")},
    f"POST {API}limits": DESK,
    f"PATCH {API}limits/<int:limit_id>": DESK,
    f"DELETE {API}limits/<int:limit_id>": DESK,
    "POST limits/": DESK,
    "POST limits/<int:limit_id>/": DESK,
    **{f"admin runs_templateaccess {what}": DESK for what in ("add", "change", "delete")},
    **{f"admin auth_group {what}": DESK for what in ("add", "change", "delete")},
    "admin auth_user add": DESK,
    "admin auth_user delete": DESK,
    "admin auth_user_password_change": DESK,
    "admin hitl_chataccount add": "For superusers alone, as delegations.",
    "admin hitl_chataccount delete": DESK,
    "POST notifications/chats": OWN,
    "POST keys": OWN,
    f"POST pauses/{PAUSE}/look": OWN,
    "POST welcome": OWN,
    "admin hitl_delegation add": (
        "For superusers alone, who may answer as anybody; the page `delegations/` is played."
    ),
    "admin hitl_inboundsource add": DESK,
    **{f"admin hitl.InboundSource {what}": DESK for what in ("new_secret", "drop_old_secrets",
    "switch_off", "switch_on")},
    "admin runs_template change": (
        "The same form of text fields as `PUT templates/workflows`, which is played, and the "
        "same service."
    ),
    "admin checkpoints_checkpoint_diff": "Shows a difference.",
    "admin checkpoints_thread_export": (
        "Gives a document; whoever imports one plays `threads/import`."
    ),
    "socket ": "Closes at once.",
    "command workorder list": "Lists orders.",
    "command find": "Lists what a person sees.",
    **{f"{method} {API}views{one}": OWN_VIEWS
    for method, one in (("POST", ""), ("PATCH", f"/{VIEW}"), ("DELETE", f"/{VIEW}"))},
    "POST views/": OWN_VIEWS,
    f"POST views/{VIEW}/do": OWN_VIEWS,
    "command workorder show": "Shows an order.",
    "command why": "Says why a run stands where it stands.",
    **{
        f"command {name}": SHELL
        for name in (
            "anchor_ledger", "check_inflight", "credential bind", "credential list",
            "credential remove", "credential set",
            "doctor", "drop_stray_bodies", "export_ledger", "export_thread", "invariants",
            "load_templates",
            "mcp_tools accept", "mcp_tools check", "mcp_tools list", "mcp_tools remove",
            "prune", "rotate_keys",
            "schedules list", "schedules pause", "schedules resume", "schedules run",
            "schedules show",
            "sample_invoices", "sample_repository", "standalone", "start", "startworkflow",
            "templates apply", "templates export", "verify_checkpoints",
            "verify_ledger",
        )
    },
}  # fmt: skip
"""Door → why no move goes through it."""
