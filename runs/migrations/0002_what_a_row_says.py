from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0001_tables'),
    ]

    operations = [
        migrations.AddField(
            model_name='pause',
            name='brief',
            field=models.BooleanField(db_default=False, default=False, help_text='Whether a row shows all that is decided: question, summary and facts.'),
        ),
        migrations.AddField(
            model_name='pause',
            name='summary',
            field=models.TextField(db_default='', default='', help_text="What a row says of it: the report's summary, or how its content begins.", max_length=300),
        ),
    ]
