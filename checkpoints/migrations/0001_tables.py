import checkpoints.database.clock
import checkpoints.ids
import checkpoints.models
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from checkpoints.database import tables_at_once


OWN_HEAD = """
    ALTER TABLE checkpoints_thread
        DROP CONSTRAINT checkpoints_thread_head_id_b88a68cc_fk_checkpoin,
        ADD CONSTRAINT thread_head_is_its_own FOREIGN KEY (id, head_id)
            REFERENCES checkpoints_checkpoint (thread_id, id) DEFERRABLE INITIALLY DEFERRED"""


def own_head(apps, editor):
    """Say that a thread's head is one of its own checkpoints.

    This foreign key stands in place of Django's, which is on `head_id` alone: where a checkpoint
    is deleted, PostgreSQL looks the thread up by its primary key, so `head_id`, which each step
    changes, needs no index. SQLite keeps Django's foreign key.
    """
    if editor.connection.vendor == "postgresql":
        editor.execute(OWN_HEAD)


class Migration(tables_at_once.Migration):

    initial = True
    replaces = [
        ('checkpoints', '0001_initial'),
        ('checkpoints', '0002_graph_drawings'),
        ('checkpoints', '0003_restingthread'),
        ('checkpoints', '0004_memo_unapproved'),
    ]

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Blob',
            fields=[
                ('digest', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('content', models.BinaryField(help_text='zlib-compressed.')),
                ('size', models.PositiveIntegerField(help_text='Bytes before compression.')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('touched_at', models.DateTimeField(default=checkpoints.database.clock.now, help_text='When somebody last meant to refer to it: see keeping.')),
            ],
        ),
        migrations.CreateModel(
            name='Checkpoint',
            fields=[
                ('id', models.UUIDField(default=checkpoints.ids.new, editable=False, primary_key=True, serialize=False)),
                ('run_id', models.UUIDField(help_text='The run that wrote it; runs know checkpoints, not the other way round.')),
                ('status', models.CharField(choices=[('active', 'Active'), ('pending_input', 'Pending Input'), ('completed', 'Completed'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], max_length=16)),
                ('node_id', models.CharField(blank=True, help_text='The step that ended; empty at the start of a run.', max_length=100)),
                ('next_step', models.CharField(blank=True, help_text='The step that comes next; empty where the run ends or waits.', max_length=100)),
                ('loop_num', models.PositiveIntegerField(default=1, help_text='How often node_id has run in this run.')),
                ('completed_nodes', models.PositiveIntegerField(default=0)),
                ('total_nodes', models.PositiveIntegerField(default=0)),
                ('is_snapshot', models.BooleanField(help_text='Whether body is the whole state, or the change against the parent.')),
                ('depth', models.PositiveSmallIntegerField(help_text='Deltas between this checkpoint and its nearest snapshot.')),
                ('body', checkpoints.models.JsonTextField(editable=False)),
                ('schema_version', models.PositiveSmallIntegerField(default=1)),
                ('digest', models.CharField(help_text='Of the whole state: see codec, by schema_version.', max_length=64)),
                ('size', models.PositiveIntegerField(help_text='Bytes of body.')),
                ('metadata', checkpoints.models.JsonTextField(default=dict, help_text='Why it waits, which commit of the code belongs to it, and the like.')),
                ('dropped_before', models.PositiveIntegerField(default=0, help_text='Checkpoints between its parent and this one that were dropped.')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('parent', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='children', to='checkpoints.checkpoint')),
            ],
            options={
                'permissions': [('view_state', 'Can see in the admin what is encrypted at rest')],
            },
            bases=(checkpoints.ids.HasShownId, models.Model),
        ),
        migrations.CreateModel(
            name='Chore',
            fields=[
                ('name', models.CharField(max_length=40, primary_key=True, serialize=False)),
                ('epoch', models.PositiveBigIntegerField(default=0, help_text='Counts claims; each transaction of the holder names its own.')),
                ('busy_until', models.DateTimeField(default=checkpoints.database.clock.now, help_text='Who has not renewed its claim by then has lost it.')),
                ('due_at', models.DateTimeField(default=checkpoints.database.clock.now)),
                ('place', checkpoints.models.JsonTextField(default=dict, help_text='How far it has come.')),
            ],
        ),
        migrations.CreateModel(
            name='GraphNamespace',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('name', models.TextField(blank=True)),
            ],
        ),
        migrations.CreateModel(
            name='Thread',
            fields=[
                ('id', models.UUIDField(default=checkpoints.ids.new, editable=False, primary_key=True, serialize=False)),
                ('title', models.CharField(blank=True, max_length=200)),
                ('last_seq', models.BigIntegerField(default=0, editable=False)),
                ('first_seq', models.BigIntegerField(default=1, editable=False, help_text='The first number of the log that is kept.')),
                ('folded', models.BigIntegerField(default=0, editable=False, help_text='Numbers of the log after the first whose streamed text was folded: see keeping.')),
                ('when_busy', models.CharField(choices=[('refuse', 'Refuse it'), ('queue', 'Queue it'), ('interrupt', 'Interrupt the run')], default='refuse', max_length=16)),
                ('step_balance', models.IntegerField(default=0, editable=False, help_text='Steps whose checkpoint was dropped, less those whose event was: see keeping.')),
                ('for_user', models.CharField(blank=True, default='', help_text='Whom it is held with, as the program calls them.', max_length=200)),
                ('session', models.CharField(blank=True, default='', help_text="That program's session, whose memory it shares.", max_length=200)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('imported_at', models.DateTimeField(editable=False, help_text='When it was made of a document; what came with that is marked.', null=True)),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='threads', to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(blank=True, help_text='Its members see and answer too.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='threads', to='auth.group')),
            ],
            options={
                'permissions': [('erase_thread', 'Can erase a thread with all that belongs to it'), ('import_thread', 'Can import a thread from a document')],
            },
            bases=(checkpoints.ids.HasShownId, models.Model),
        ),
        migrations.CreateModel(
            name='Mark',
            fields=[
                ('digest', models.CharField(max_length=64, primary_key=True, serialize=False)),
            ],
        ),
        migrations.CreateModel(
            name='Chunk',
            fields=[
                ('digest', models.CharField(help_text="sha256 of the previous digest and the items' text.", max_length=64, primary_key=True, serialize=False)),
                ('content', models.BinaryField(help_text="The items' canonical JSON without the list's brackets, zlib-compressed.")),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('touched_at', models.DateTimeField(default=checkpoints.database.clock.now, help_text="As a blob's.")),
                ('previous', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='checkpoints.chunk')),
            ],
        ),
        migrations.CreateModel(
            name='GraphDrawing',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text='By which templates name the graph.', max_length=200)),
                ('shape', models.CharField(blank=True, help_text='Digest of its nodes and edges; empty where it could not be loaded.', max_length=64)),
                ('content', models.JSONField(help_text='Nodes and edges; empty where it could not be loaded.')),
                ('problem', models.TextField(blank=True, help_text='Why it could not be loaded.')),
                ('loaded_at', models.DateTimeField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('name', 'shape'), name='graph_drawing_once_per_shape')],
            },
        ),
        migrations.CreateModel(
            name='RestingThread',
            fields=[
                ('thread', models.OneToOneField(editable=False, on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='+', serialize=False, to='checkpoints.thread')),
                ('seq', models.BigIntegerField(help_text='Where its log ended.')),
                ('until', models.DateTimeField(help_text='When something of it may go at the earliest.')),
                ('newest', models.UUIDField(help_text='Its newest checkpoint; later ones are looked at.', null=True)),
                ('references', checkpoints.models.JsonTextField(default=list, help_text='The blobs and chunks that its checkpoints refer to.')),
            ],
        ),
        migrations.CreateModel(
            name='Event',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('seq', models.BigIntegerField()),
                ('kind', models.CharField(choices=[('run_started', 'Run Started'), ('step_started', 'Step Started'), ('step_completed', 'Step Completed'), ('streaming_chunk', 'Streaming Chunk'), ('tool_call_started', 'Tool Call Started'), ('tool_call_completed', 'Tool Call Completed'), ('checkpoint_created', 'Checkpoint Created'), ('approval_requested', 'Approval Requested'), ('approval_received', 'Approval Received'), ('await_human_input', 'Await Human Input'), ('run_paused', 'Run Paused'), ('run_resumed', 'Run Resumed'), ('run_completed', 'Run Completed'), ('run_failed', 'Run Failed'), ('run_cancelled', 'Run Cancelled'), ('run_expired', 'Run Expired'), ('pause_updated', 'Pause Updated'), ('log', 'Log')], max_length=32)),
                ('run_id', models.UUIDField(null=True)),
                ('data', checkpoints.models.JsonTextField(default=dict)),
                ('at', models.DateTimeField(auto_now_add=True)),
                ('thread', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='events', to='checkpoints.thread')),
            ],
        ),
        migrations.AddField(
            model_name='checkpoint',
            name='thread',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='checkpoints', to='checkpoints.thread'),
        ),
        migrations.CreateModel(
            name='GraphWrite',
            fields=[
                ('pk', models.CompositePrimaryKey('namespace', 'checkpoint_key', 'task_id', 'idx', blank=True, editable=False, primary_key=True, serialize=False)),
                ('checkpoint_key', models.UUIDField()),
                ('task_id', models.TextField()),
                ('idx', models.IntegerField(help_text="Its place among the task's writes; negative for errors, interrupts and answers.")),
                ('task_path', models.TextField(blank=True)),
                ('channel', models.TextField()),
                ('kind', models.CharField(max_length=40)),
                ('content', models.BinaryField()),
                ('namespace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='writes', to='checkpoints.graphnamespace')),
            ],
        ),
        migrations.CreateModel(
            name='Memo',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('scope', models.CharField(help_text="The step's execution, as context.key names it.", max_length=200)),
                ('key', models.CharField(max_length=200)),
                ('value', checkpoints.models.JsonTextField(help_text='A list of the one result, which may be null.')),
                ('unapproved', models.BooleanField(db_default=False, default=False, help_text='Done behind a review by a step that relied on no decision.')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('thread', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='memos', to='checkpoints.thread')),
            ],
        ),
        migrations.CreateModel(
            name='GraphCheckpoint',
            fields=[
                ('checkpoint', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='graph', serialize=False, to='checkpoints.checkpoint')),
                ('key', models.UUIDField(help_text="LangGraph's checkpoint_id, a time-ordered UUID; the same in a copied thread.")),
                ('parent', models.UUIDField(help_text="The parent's key.", null=True)),
                ('run', models.TextField(blank=True, help_text="LangGraph's run_id.")),
                ('kind', models.CharField(help_text='How content was serialised: see checkpoints.store.graph_state.', max_length=40)),
                ('content', models.BinaryField()),
                ('namespace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='checkpoints', to='checkpoints.graphnamespace')),
            ],
        ),
        migrations.CreateModel(
            name='GraphBlob',
            fields=[
                ('id', models.UUIDField(default=checkpoints.ids.new, editable=False, primary_key=True, serialize=False)),
                ('channel', models.TextField()),
                ('version', models.TextField()),
                ('depth', models.PositiveSmallIntegerField(help_text='Rows between this one and the nearest that sums up those before it; 0 for such a one.')),
                ('items', models.PositiveIntegerField(help_text='Of the whole list; null for what is none.', null=True)),
                ('kind', models.CharField(max_length=40)),
                ('content', models.BinaryField()),
                ('digest', models.BinaryField(help_text='sha256 of the whole value as it was serialised, of a list without its header.')),
                ('base', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='checkpoints.graphblob')),
                ('namespace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='blobs', to='checkpoints.graphnamespace')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('base__isnull', False)), fields=['base'], name='graph_blob_by_base')],
                'constraints': [models.UniqueConstraint(fields=('namespace', 'channel', 'version'), name='graph_blob_once_per_version')],
            },
        ),
        migrations.CreateModel(
            name='GraphThread',
            fields=[
                ('thread', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='graph', serialize=False, to='checkpoints.thread')),
                ('name', models.TextField()),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.AddField(
            model_name='graphnamespace',
            name='thread',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='namespaces', to='checkpoints.graphthread'),
        ),
        migrations.AddIndex(
            model_name='thread',
            index=models.Index(fields=['owner', '-id'], name='thread_by_owner'),
        ),
        migrations.AddIndex(
            model_name='thread',
            index=models.Index(condition=models.Q(('team__isnull', False)), fields=['team', '-id'], name='thread_by_team'),
        ),
        migrations.AddIndex(
            model_name='thread',
            index=models.Index(condition=models.Q(('for_user', ''), ('session', ''), _negated=True), fields=['owner', 'for_user', 'session', '-id'], name='thread_by_session'),
        ),
        migrations.AddIndex(
            model_name='event',
            index=models.Index(condition=models.Q(('kind', 'streaming_chunk')), fields=['thread', 'seq'], name='event_chunk_by_seq'),
        ),
        migrations.AddConstraint(
            model_name='event',
            constraint=models.UniqueConstraint(fields=('thread', 'seq'), name='event_seq_once_per_thread'),
        ),
        migrations.AddConstraint(
            model_name='event',
            constraint=models.CheckConstraint(condition=models.Q(('seq__gt', 0)), name='event_seq_from_one'),
        ),
        migrations.AddIndex(
            model_name='checkpoint',
            index=models.Index(fields=['run_id', '-id'], name='checkpoint_by_run'),
        ),
        migrations.AddIndex(
            model_name='checkpoint',
            index=models.Index(condition=models.Q(('status', 'active'), _negated=True), fields=['status', '-id'], name='checkpoint_by_status'),
        ),
        migrations.AddConstraint(
            model_name='checkpoint',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('depth', 0), ('is_snapshot', True)), models.Q(('depth__gt', 0), ('is_snapshot', False), ('parent__isnull', False)), _connector='OR'), name='checkpoint_delta_has_parent'),
        ),
        migrations.AddConstraint(
            model_name='checkpoint',
            constraint=models.UniqueConstraint(fields=('thread', 'id'), name='checkpoint_of_one_thread'),
        ),
        migrations.AddConstraint(
            model_name='memo',
            constraint=models.UniqueConstraint(fields=('scope', 'key'), name='memo_once_per_execution'),
        ),
        migrations.AddIndex(
            model_name='graphcheckpoint',
            index=models.Index(condition=models.Q(('run', ''), _negated=True), fields=['run'], name='graph_checkpoint_by_run'),
        ),
        migrations.AddConstraint(
            model_name='graphcheckpoint',
            constraint=models.UniqueConstraint(fields=('namespace', 'key'), name='graph_checkpoint_once_per_namespace'),
        ),
        migrations.AddConstraint(
            model_name='graphthread',
            constraint=models.UniqueConstraint(fields=('owner', 'name'), name='graph_thread_once_per_owner'),
        ),
        migrations.AddConstraint(
            model_name='graphnamespace',
            constraint=models.UniqueConstraint(fields=('thread', 'name'), name='graph_namespace_once_per_thread'),
        ),
        migrations.AddField(
            model_name='thread',
            name='head',
            field=models.ForeignKey(db_index=False, editable=False, help_text='The checkpoint a run goes on from.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='checkpoints.checkpoint'),
        ),
        migrations.RunPython(own_head, migrations.RunPython.noop),
        # no model's table: `flush` empties those, and a row in this one must let it do so first; see
        # checkpoints.models.append_only
        migrations.RunSQL(
            "CREATE TABLE checkpoints_guard (opens varchar(16) NOT NULL)",
            "DROP TABLE checkpoints_guard",
        ),
    ]
