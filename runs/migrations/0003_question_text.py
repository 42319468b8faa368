from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0002_child_runs'),
    ]

    operations = [
        migrations.AlterField(
            model_name='pause',
            name='question',
            field=models.TextField(max_length=300),
        ),
    ]
