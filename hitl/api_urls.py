"""REST routes of questions and answers, under /api/v1/. Streams are served beside Django, by `hitl.routing`."""

from django.urls import path, re_path

from hitl import api, api_checkpoints, api_events, api_portable, api_threads

urlpatterns = [
    path("work-orders/<wo:order_id>", api.WorkOrderDetail.as_view()),
    path("work-orders/<wo:order_id>/pause-state", api.PauseState.as_view()),
    path("work-orders/<wo:order_id>/resume", api.Resume.as_view()),
    path("work-orders/<wo:order_id>/cancel", api.Cancel.as_view()),
    path("work-orders/<wo:order_id>/retry", api.Retry.as_view()),
    path("work-orders/<wo:order_id>/suspend", api.Suspend.as_view()),
    path("threads", api_threads.Threads.as_view()),
    path("threads/import", api_portable.ThreadImport.as_view()),
    path("threads/<thr:thread_id>/export", api_portable.ThreadExport.as_view()),
    path("threads/<thr:thread_id>", api_threads.ThreadDetail.as_view()),
    path("threads/<thr:thread_id>/state", api_threads.ThreadState.as_view()),
    path("threads/<thr:thread_id>/history", api_threads.ThreadHistory.as_view()),
    path("threads/<thr:thread_id>/branches", api_checkpoints.ThreadBranches.as_view()),
    path("threads/<thr:thread_id>/events", api_events.ThreadEvents.as_view()),
    path("threads/<thr:thread_id>/runs", api_threads.ThreadRuns.as_view()),
    path("runs", api_threads.Runs.as_view()),
    path("runs/<run:run_id>", api_threads.RunDetail.as_view()),
    path("runs/<run:run_id>/checkpoints", api_threads.RunCheckpoints.as_view()),
    path("runs/<run:run_id>/events", api_events.RunEvents.as_view()),
    path("runs/<run:run_id>/input", api_threads.RunInput.as_view()),
    path("runs/<run:run_id>/resume", api_threads.RunResume.as_view()),
    path("runs/<run:run_id>/cancel", api_threads.RunCancel.as_view()),
    path("runs/<run:run_id>/suspend", api_threads.RunSuspend.as_view()),
    path("checkpoints/<ckpt:checkpoint_id>", api_threads.CheckpointDetail.as_view()),
    path("checkpoints/<ckpt:checkpoint_id>/diff", api_checkpoints.CheckpointDiff.as_view()),
    path("checkpoints/<ckpt:checkpoint_id>/events", api_checkpoints.CheckpointEvents.as_view()),
    path("checkpoints/<ckpt:checkpoint_id>/fork", api.Fork.as_view()),
    path("pauses", api.Pauses.as_view()),
    path("pauses/<pse:pause_id>", api.PauseDetail.as_view()),
    path("pauses/<pse:pause_id>/decisions", api.Decisions.as_view()),
    re_path("", api.NoSuchRoute.as_view()),
]
