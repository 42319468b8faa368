import checkpoints.ids
import checkpoints.models
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('hitl', '0006_items_of_the_store'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='langgraphrun',
            name='assistant',
            field=models.UUIDField(help_text='The saved configuration that it was begun with.', null=True),
        ),
        migrations.CreateModel(
            name='LangGraphAssistant',
            fields=[
                ('id', models.UUIDField(default=checkpoints.ids.new, editable=False, primary_key=True, serialize=False)),
                ('version', models.PositiveIntegerField(default=1, help_text='The one that counts.')),
                ('made_at', models.DateTimeField(auto_now_add=True)),
                ('changed_at', models.DateTimeField()),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='LangGraphAssistantVersion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('template', models.SlugField(db_index=False, help_text='Slug; each run takes the version that is current then.', max_length=80)),
                ('name', models.CharField(max_length=120)),
                ('description', models.CharField(blank=True, max_length=1000)),
                ('metadata', checkpoints.models.JsonTextField(default=dict)),
                ('made_at', models.DateTimeField(auto_now_add=True)),
                ('assistant', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='versions', to='hitl.langgraphassistant')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('assistant', 'number'), name='langgraph_assistant_version_once')],
            },
        ),
    ]
