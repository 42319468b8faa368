from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0010_web_heartbeats")]

    operations = [
        migrations.AddField(
            model_name="run",
            name="deaths",
            field=models.PositiveSmallIntegerField(
                db_default=0,
                default=0,
                help_text="How often in a row the step it is at has ended its process.",
            ),
        ),
    ]
