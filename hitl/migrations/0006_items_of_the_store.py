import checkpoints.models
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('hitl', '0005_one_end_one_delivery'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='LangGraphItem',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('namespace', models.CharField(help_text='A full stop behind each label.', max_length=400)),
                ('key', models.CharField(max_length=200)),
                ('value', checkpoints.models.JsonTextField(default=dict)),
                ('size', models.PositiveIntegerField(help_text="Bytes of the value's JSON.")),
                ('created_at', models.DateTimeField()),
                ('updated_at', models.DateTimeField()),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('owner', 'namespace', 'key'), name='langgraph_item_once')],
            },
        ),
    ]
