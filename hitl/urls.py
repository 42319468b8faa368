"""Pages."""

from django.urls import path

from hitl.views import bulk, checkpoints, decisions, delegations, inbox, links, orders, outbound, pauses, threads, tools

app_name = "hitl"
urlpatterns = [
    path("", inbox.inbox, name="inbox"),
    path("several", bulk.several, name="bulk"),
    path("work-orders/", orders.order_list, name="orders"),
    path("work-orders/new", orders.order_new, name="order_new"),
    path("work-orders/<wo:order_id>/", orders.order, name="order"),
    path("work-orders/<wo:order_id>/cancel", orders.order_cancel, name="order_cancel"),
    path("work-orders/<wo:order_id>/suspend", orders.order_suspend, name="order_suspend"),
    path("work-orders/<wo:order_id>/retry", orders.order_retry, name="order_retry"),
    path("threads/", threads.thread_list, name="threads"),
    path("threads/<thr:thread_id>/", threads.thread, name="thread"),
    path("threads/<thr:thread_id>/say", threads.thread_say, name="thread_say"),
    path("threads/<thr:thread_id>/resume", threads.thread_resume, name="thread_resume"),
    path("threads/<thr:thread_id>/suspend", threads.thread_suspend, name="thread_suspend"),
    path("threads/<thr:thread_id>/cancel", threads.thread_cancel, name="thread_cancel"),
    path("threads/<thr:thread_id>/history", checkpoints.history, name="history"),
    path("checkpoints/compare", checkpoints.compare, name="compare"),
    path("checkpoints/<ckpt:checkpoint_id>/", checkpoints.checkpoint, name="checkpoint"),
    path("checkpoints/<ckpt:checkpoint_id>/resume", checkpoints.checkpoint_resume, name="checkpoint_resume"),
    path("decisions/<dec:decision_id>/", decisions.receipt, name="receipt"),
    path("decisions/<dec:decision_id>/undo", decisions.undo, name="undo"),
    path("pauses/<pse:pause_id>/decide", pauses.decide, name="decide"),
    path("pauses/<pse:pause_id>/claim", pauses.claim, name="claim"),
    path("pauses/<pse:pause_id>/release", pauses.release, name="release"),
    path("pauses/<pse:pause_id>/edits", pauses.pause_edits, name="pause_edits"),
    path("delegations/", delegations.delegation_list, name="delegations"),
    path("delegations/<int:delegation_id>/end", delegations.delegation_end, name="delegation_end"),
    path("pauses/<pse:pause_id>/cancel", pauses.pause_cancel, name="pause_cancel"),
    path("pauses/<pse:pause_id>/extend", pauses.pause_extend, name="pause_extend"),
    path("pauses/<pse:pause_id>/snooze", pauses.pause_snooze, name="pause_snooze"),
    path("pauses/<pse:pause_id>/changes", pauses.pause_changes, name="pause_changes"),
    path("pauses/<pse:pause_id>/patch", pauses.pause_patch, name="pause_patch"),
    path("l/<str:token>", links.link, name="link"),
    path("tools/", tools.tool_list, name="tools"),
    path("deliveries/", outbound.deliveries, name="deliveries"),
    path("deliveries/<dlv:delivery_id>/again", outbound.again, name="delivery_again"),
    path("notifications/", outbound.notifications, name="notifications"),
    path("notifications/mail", outbound.mail, name="notifications_mail"),
    path("notifications/<end:endpoint_id>", outbound.change, name="endpoint"),
]
