from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('checkpoints', '0005_keeping'),
    ]

    operations = [
        migrations.AlterModelOptions(
            name='checkpoint',
            options={'permissions': [('view_state', 'Can see in the admin what is encrypted at rest')]},
        ),
    ]
