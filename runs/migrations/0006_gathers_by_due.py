from django.db import migrations, models

from checkpoints.database.migrating import AddIndexBeside


class Migration(migrations.Migration):
    atomic = False  # the index is built beside writers

    dependencies = [
        ('runs', '0005_gathers_in_turn'),
    ]

    operations = [
        AddIndexBeside(
            model_name='run',
            index=models.Index(condition=models.Q(('gather_due_at__isnull', False)), fields=['gather_due_at'], name='run_by_gather_due'),
        ),
    ]
