from django.db import migrations


class Migration(migrations.Migration):
    """No model's table: `flush` empties those, and must first be let through by a row in this one. See checkpoints.guard."""

    dependencies = [
        ("checkpoints", "0009_review"),
    ]

    operations = [
        migrations.RunSQL("CREATE TABLE checkpoints_guard (opens varchar(16) NOT NULL)", "DROP TABLE checkpoints_guard"),
    ]
