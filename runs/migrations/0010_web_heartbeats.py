from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0009_step_tracebacks")]

    operations = [
        migrations.AlterField(
            model_name="heartbeat",
            name="kind",
            field=models.CharField(
                choices=[
                    ("worker", "Worker"),
                    ("beat", "Beat"),
                    ("web", "Web server"),
                    ("look", "Beat's look, carried out by a worker"),
                ],
                max_length=8,
            ),
        ),
    ]
