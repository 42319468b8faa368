import checkpoints.ids
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("checkpoints", "0010_guard"),
        ("runs", "0013_queued_turns"),
    ]

    operations = [
        migrations.CreateModel(
            name="Artifact",
            fields=[
                ("id", models.UUIDField(default=checkpoints.ids.new, editable=False, primary_key=True, serialize=False)),
                ("step", models.CharField(max_length=100)),
                ("loop_num", models.PositiveIntegerField()),
                ("name", models.CharField(max_length=100)),
                ("digest", models.CharField(help_text="Of the blob that holds it.", max_length=64)),
                ("size", models.PositiveBigIntegerField(help_text="Bytes as the step gave it.")),
                ("cut", models.BooleanField(default=False, help_text="Its middle is left out.")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "run",
                    models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="artifacts", to="runs.run"),
                ),
                (
                    "thread",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="artifacts", to="checkpoints.thread"),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("run", "step", "loop_num", "name"), name="artifact_once_per_execution"),
                    models.CheckConstraint(condition=models.Q(("digest", ""), _negated=True), name="artifact_has_a_text"),
                ],
            },
            bases=(checkpoints.ids.Shown, models.Model),
        ),
    ]
