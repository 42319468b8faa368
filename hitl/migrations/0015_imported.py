"""Threads and runs that were imported before they were marked as such are marked now."""

from django.db import migrations
from django.db.models import F, OuterRef, Subquery


def mark(apps, schema_editor):
    Import, Run, Thread = apps.get_model("hitl", "Import"), apps.get_model("runs", "Run"), apps.get_model("checkpoints", "Thread")
    at = Subquery(Import.objects.filter(pk=OuterRef("pk")).values("at")[:1])
    Thread.objects.filter(imported_at=None, pk__in=Import.objects.values("pk")).update(imported_at=at)
    theirs = Run.objects.filter(imported_at=None, thread__imported_at__gte=F("created_at"), ended_at__isnull=False)
    for run in theirs.select_related("thread"):
        Run.objects.filter(pk=run.pk).update(imported_at=run.thread.imported_at)


class Migration(migrations.Migration):
    dependencies = [
        ("hitl", "0014_idempotency_claims"),
        ("checkpoints", "0012_imported"),
        ("runs", "0021_imported"),
    ]

    operations = [migrations.RunPython(mark, migrations.RunPython.noop)]
