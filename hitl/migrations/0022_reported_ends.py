from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('hitl', '0021_single_keys'),
    ]

    operations = [
        migrations.AddField(
            model_name='wait',
            name='reported',
            field=models.CharField(blank=True, choices=[('', 'Nothing'), ('running', 'Running'), ('completed', 'Completed'), ('failed', 'Failed')], db_default='', default='', help_text='What that engine said of its run since the answer; empty for nothing yet.', max_length=9),
        ),
    ]
