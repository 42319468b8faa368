from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0019_artifacts_kept"),
    ]

    operations = [
        migrations.AddField(
            model_name="credential",
            name="hosts",
            field=models.JSONField(blank=True, default=list, help_text="The hosts that it may be sent to; empty for any."),
        ),
    ]
