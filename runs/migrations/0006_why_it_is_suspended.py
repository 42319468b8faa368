from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0004_files_and_progress'),
    ]

    operations = [
        migrations.AddField(
            model_name='run',
            name='suspend_because',
            field=models.TextField(blank=True, db_default='', default='', help_text='Why, where `suspend_by` names somebody.'),
        ),
    ]
