"""REST routes of questions and answers, under /api/v1/. `logs/stream` is served beside Django, in `hitl.routing`."""

from django.urls import path, re_path

from hitl import api

urlpatterns = [
    path("work-orders/<wo:order_id>", api.WorkOrderDetail.as_view()),
    path("work-orders/<wo:order_id>/pause-state", api.PauseState.as_view()),
    path("work-orders/<wo:order_id>/resume", api.Resume.as_view()),
    path("work-orders/<wo:order_id>/cancel", api.Cancel.as_view()),
    path("work-orders/<wo:order_id>/retry", api.Retry.as_view()),
    path("work-orders/<wo:order_id>/suspend", api.Suspend.as_view()),
    path("checkpoints/<ckpt:checkpoint_id>/fork", api.Fork.as_view()),
    path("pauses", api.Pauses.as_view()),
    path("pauses/<pse:pause_id>", api.PauseDetail.as_view()),
    path("pauses/<pse:pause_id>/decisions", api.Decisions.as_view()),
    re_path("", api.NoSuchRoute.as_view()),
]
