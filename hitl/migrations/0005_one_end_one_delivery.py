from django.db import migrations, models

from checkpoints.database.migrating import AddUniqueBeside


class Migration(migrations.Migration):
    atomic = False  # its index is built beside writers

    dependencies = [
        ('hitl', '0004_order_ends'),
    ]

    operations = [
        AddUniqueBeside(
            model_name='delivery',
            constraint=models.UniqueConstraint(condition=models.Q(('run__isnull', False)), fields=('run', 'place'), name='delivery_once_of_an_end'),
        ),
    ]
