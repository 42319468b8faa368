from django.db import migrations, models

from checkpoints.database.migrating import AddIndexBeside


class Migration(migrations.Migration):
    atomic = False  # the index is built beside writers

    dependencies = [
        ('runs', '0007_suspended_and_ended'),
    ]

    operations = [
        AddIndexBeside(
            model_name='run',
            index=models.Index(condition=models.Q(('end_told', False), ('imported_at', None), ('parent', None), ('status__in', ['cancelled', 'completed', 'expired', 'failed']), ('work_order__isnull', False)), fields=['id'], name='run_end_untold'),
        ),
    ]
