"""Pages."""

from django.urls import path

from hitl.views import checkpoints, inbox, links, orders, outbound, pauses, threads

app_name = "hitl"
urlpatterns = [
    path("", inbox.inbox, name="inbox"),
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
    path("pauses/<pse:pause_id>/decide", pauses.decide, name="decide"),
    path("pauses/<pse:pause_id>/cancel", pauses.pause_cancel, name="pause_cancel"),
    path("pauses/<pse:pause_id>/changes", pauses.pause_changes, name="pause_changes"),
    path("pauses/<pse:pause_id>/patch", pauses.pause_patch, name="pause_patch"),
    path("l/<str:token>", links.link, name="link"),
    path("deliveries/", outbound.deliveries, name="deliveries"),
    path("deliveries/<dlv:delivery_id>/again", outbound.again, name="delivery_again"),
    path("notifications/", outbound.notifications, name="notifications"),
    path("notifications/mail", outbound.mail, name="notifications_mail"),
    path("notifications/<end:endpoint_id>", outbound.change, name="endpoint"),
]
