from typing import Any

from django.db import migrations, models

from checkpoints.state.encryption import KeyMissing, SealBroken

RISKS = ("low", "normal", "high")


def rank(apps: Any, editor: Any) -> None:
    """Of the questions that are open: as a new one has it from the beginning."""
    Pause = apps.get_model("runs", "Pause")
    for key in Pause.objects.filter(status="open").values_list("pk", flat=True):
        try:
            pause = Pause.objects.only("review", "calls").get(pk=key)
        except (KeyMissing, SealBroken):
            continue
        risks = [pause.review.get("risk", "normal"), *(call["risk"] for call in pause.calls)]
        Pause.objects.filter(pk=key).update(risk_rank=max(map(RISKS.index, risks)))


class Migration(migrations.Migration):
    dependencies = [("runs", "0007_heartbeats")]
    operations = [
        migrations.AddField(
            model_name="pause",
            name="risk_rank",
            field=models.PositiveSmallIntegerField(
                editable=False,
                help_text="Its `risk` as a number, for lists; null where it closed before there was one.",
                null=True,
            ),
        ),
        migrations.RunPython(rank, migrations.RunPython.noop),
    ]
