import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('hitl', '0003_modes_of_wire_runs'),
        ('runs', '0007_suspended_and_ended'),
    ]

    operations = [
        migrations.AddField(
            model_name='delivery',
            name='run',
            field=models.ForeignKey(db_index=False, help_text='Of an order, whose end it is about.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='deliveries', to='runs.run'),
        ),
        migrations.AddField(
            model_name='endpoint',
            name='templates',
            field=models.JSONField(blank=True, db_default=[], default=list, help_text='Slugs of the templates whose work it is told of; all where this is empty.'),
        ),
        migrations.AlterField(
            model_name='delivery',
            name='occasion',
            field=models.CharField(choices=[('asked', 'Asked'), ('refined', 'Asked again: an answer did not fit'), ('reminded', 'Reminded'), ('escalated', 'Escalated'), ('mentioned', 'Mentioned'), ('answered', 'Answered'), ('cancelled', 'Cancelled'), ('expired', 'Expired'), ('replied', 'Told what became of a reply'), ('order_completed', 'Order completed'), ('order_failed', 'Order failed'), ('order_cancelled', 'Order cancelled'), ('order_expired', 'Order expired'), ('test', 'Test'), ('account', 'About an account')], max_length=16),
        ),
        migrations.AlterField(
            model_name='endpoint',
            name='occasions',
            field=models.JSONField(blank=True, default=list, help_text='What it is told; all about questions where this is empty.'),
        ),
    ]
