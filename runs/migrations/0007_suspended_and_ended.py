from django.db import migrations, models

TOLD = "Whether those who are told of an order's end were planned to be told of it."


def tell_of_those_at_work(apps, schema_editor):
    """Nobody is told of what ended before there was anybody to tell."""
    apps.get_model('runs', 'Run').objects.filter(ended_at=None).update(end_told=False)


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0006_gathers_by_due'),
    ]

    operations = [
        migrations.AddField(
            model_name='run',
            name='suspend_because',
            field=models.TextField(blank=True, db_default='', default='', help_text='Why, where `suspend_by` names somebody.'),
        ),
        # rows that are there already get this default, and are not written anew
        migrations.AddField(
            model_name='run',
            name='end_told',
            field=models.BooleanField(db_default=True, default=True, help_text=TOLD),
        ),
        migrations.AlterField(
            model_name='run',
            name='end_told',
            field=models.BooleanField(db_default=False, default=False, help_text=TOLD),
        ),
        migrations.RunPython(tell_of_those_at_work, migrations.RunPython.noop),
    ]
