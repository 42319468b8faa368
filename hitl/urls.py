"""Pages."""

from django.urls import path

from hitl.views import inbox, orders

app_name = "hitl"
urlpatterns = [
    path("", inbox.inbox, name="inbox"),
    path("work-orders/", orders.order_list, name="orders"),
    path("work-orders/new", orders.order_new, name="order_new"),
    path("work-orders/<wo:order_id>/", orders.order, name="order"),
    path("work-orders/<wo:order_id>/cancel", orders.order_cancel, name="order_cancel"),
    path("work-orders/<wo:order_id>/suspend", orders.order_suspend, name="order_suspend"),
    path("work-orders/<wo:order_id>/retry", orders.order_retry, name="order_retry"),
    path("pauses/<pse:pause_id>/decide", orders.decide, name="decide"),
    path("pauses/<pse:pause_id>/patch", orders.pause_patch, name="pause_patch"),
]
