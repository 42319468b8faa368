from django.db import migrations, models

import checkpoints.models


def say_what_was_wanted(apps, schema_editor):
    """Questions for data that were asked before there were kinds."""
    pause = apps.get_model("runs", "Pause")
    asked = pause.objects.exclude(required_inputs={}).only("pk", "ways")
    data = [one.pk for one in asked.iterator(chunk_size=1000) if "approve" not in one.ways]
    for start in range(0, len(data), 500):
        pause.objects.filter(pk__in=data[start : start + 500]).update(kind="input")


class Migration(migrations.Migration):
    dependencies = [("runs", "0010_outbound")]

    operations = [
        migrations.AddField(
            model_name="pause",
            name="kind",
            field=models.CharField(
                choices=[("approval", "Approval"), ("input", "Input"), ("tools", "Tools"), ("external", "External")],
                default="approval",
                max_length=16,
            ),
        ),
        migrations.AddField(
            model_name="pause",
            name="calls",
            field=checkpoints.models.JsonTextField(
                default=list, help_text="Tool calls that are decided one by one: `runs.workflows.tool_calls`."
            ),
        ),
        migrations.RunPython(say_what_was_wanted, migrations.RunPython.noop, elidable=True),
    ]
