import checkpoints.ids
import checkpoints.models
import django.core.validators
import django.db.models.deletion
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True
    replaces = [
        ('hitl', '0001_initial'),
        ('hitl', '0002_starts'),
        ('hitl', '0003_vote_stage'),
        ('hitl', '0004_start_priority'),
        ('hitl', '0005_comments'),
        ('hitl', '0006_handing_over'),
        ('hitl', '0007_answers_elsewhere'),
        ('hitl', '0008_saved_views'),
        ('hitl', '0009_agents_questions'),
        ('hitl', '0010_comments_at_lines'),
        ('hitl', '0011_service_accounts'),
        ('hitl', '0012_second_factors'),
        ('hitl', '0013_directory'),
        ('hitl', '0014_preferences_and_batches'),
        ('hitl', '0015_langgraph_door'),
        ('hitl', '0016_connections'),
        ('hitl', '0017_account_mails'),
        ('hitl', '0018_passed_by_the_workflow'),
        ('hitl', '0019_decided_by_one_only'),
        ('hitl', '0020_tokens_that_asked'),
        ('hitl', '0021_single_keys'),
        ('hitl', '0022_reported_ends'),
    ]

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        ('checkpoints', '0001_tables'),
        ('runs', '0001_tables'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Anchor',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField(help_text='In UTC.')),
                ('position', models.PositiveBigIntegerField()),
                ('tip', models.CharField(help_text='Digest of the decision at that position.', max_length=64)),
                ('previous', models.CharField(blank=True, help_text="Digest of the ledger's anchor before.", max_length=64)),
                ('digest', models.CharField(max_length=64)),
            ],
            options={
                'verbose_name': 'ledger anchor',
            },
        ),
        migrations.CreateModel(
            name='ChatCode',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('expires_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='Decision',
            fields=[
                ('id', models.UUIDField(default=checkpoints.ids.new, editable=False, primary_key=True, serialize=False)),
                ('action', models.CharField(help_text="approve, revise, cancel, or an answer of the template's own.", max_length=64)),
                ('feedback', models.TextField(blank=True)),
                ('payload', checkpoints.models.JsonTextField(help_text='The data that came along; null where none did.', null=True)),
                ('edited_content', models.TextField(blank=True, help_text='The content as it was approved, where that is not as it was shown.')),
                ('external', models.TextField(blank=True, help_text='The mail address of who answered by the link sent there, without an account.')),
                ('by_name', models.CharField(blank=True, help_text='The name of who decided, at that time.', max_length=301)),
                ('for_name', models.CharField(blank=True, help_text='The name of that one, at that time.', max_length=301)),
                ('early_at', models.DateTimeField(help_text='When the answer came, where that was before its question: nobody had been shown anything.', null=True)),
                ('data_only', models.BooleanField(default=False, help_text='From an address that the rules do not name: it brought data, and approves nothing.')),
                ('factor', models.CharField(blank=True, db_default='', default='', help_text='The second factor that was proven, where the question wanted one.', max_length=16)),
                ('factor_at', models.DateTimeField(help_text='When it was.', null=True)),
                ('votes', checkpoints.models.JsonTextField(default=list, help_text='Digests of the votes that were given at this question, in their order.')),
                ('decided_at', models.DateTimeField()),
                ('via', models.CharField(choices=[('page', 'Page'), ('rest', 'Rest'), ('admin', 'Admin'), ('command', 'Command'), ('socket', 'Socket'), ('link', 'Link'), ('webhook', 'Webhook'), ('mail', 'Mail'), ('slack', 'Slack'), ('teams', 'Teams'), ('mcp', 'Mcp'), ('langgraph', 'LangGraph'), ('policy', 'Policy'), ('workflow', 'Workflow')], max_length=16)),
                ('revision', models.PositiveIntegerField(help_text='The revision that was answered.')),
                ('content_digest', models.CharField(help_text='What was reviewed, as the pause recorded it.', max_length=64)),
                ('evidence', models.CharField(blank=True, help_text='The blob that holds what the reviewer was shown: `hitl.ledger.evidence`.', max_length=64)),
                ('goes_on_at', models.DateTimeField(help_text='When the run goes on, where the answer could be taken back until then.', null=True)),
                ('position', models.PositiveBigIntegerField(help_text='From 1, without a gap.')),
                ('previous', models.CharField(blank=True, max_length=64)),
                ('digest', models.CharField(max_length=64)),
            ],
            bases=(checkpoints.ids.HasShownId, models.Model),
        ),
        migrations.CreateModel(
            name='Delegation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('starts_at', models.DateTimeField()),
                ('ends_at', models.DateTimeField(help_text='Ended earlier, it ends then.')),
                ('reason', models.CharField(blank=True, max_length=200)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name='Delivery',
            fields=[
                ('id', models.UUIDField(default=checkpoints.ids.new, editable=False, primary_key=True, serialize=False)),
                ('occasion', models.CharField(choices=[('asked', 'Asked'), ('refined', 'Asked again: an answer did not fit'), ('reminded', 'Reminded'), ('escalated', 'Escalated'), ('mentioned', 'Mentioned'), ('answered', 'Answered'), ('cancelled', 'Cancelled'), ('expired', 'Expired'), ('replied', 'Told what became of a reply'), ('test', 'Test'), ('account', 'About an account')], max_length=16)),
                ('mark', models.CharField(blank=True, help_text='Which of several, e.g. of the reminders.', max_length=40)),
                ('channel', models.CharField(choices=[('email', 'Mail'), ('apprise', 'Chat or push service'), ('slack', 'Slack, with buttons'), ('webhook', 'Webhook')], max_length=16)),
                ('place', models.CharField(help_text='Names the receiver: so nobody is told the same thing twice.', max_length=80)),
                ('contact', models.TextField(blank=True, help_text='The address of somebody who has no account here.')),
                ('words', models.TextField(blank=True, help_text="What is said instead of the question's own words.")),
                ('status', models.CharField(choices=[('queued', 'Queued'), ('sending', 'Sending'), ('sent', 'Sent'), ('dead', 'Given up'), ('cancelled', 'Cancelled')], default='queued', max_length=16)),
                ('attempts', models.PositiveIntegerField(default=0)),
                ('next_at', models.DateTimeField()),
                ('lease_until', models.DateTimeField(null=True)),
                ('claim', models.UUIDField(help_text="Of the worker that is at it: another's record of the same try is ignored.", null=True)),
                ('error', models.TextField(blank=True)),
                ('kept_as', models.CharField(blank=True, db_default='', help_text='What the receiver knows it by, where it can be changed later.', max_length=80)),
                ('made_at', models.DateTimeField()),
                ('sent_at', models.DateTimeField(null=True)),
            ],
            options={
                'verbose_name_plural': 'deliveries',
                'permissions': [('mail_outside', 'Can have mail sent to any address')],
            },
            bases=(checkpoints.ids.HasShownId, models.Model),
        ),
        migrations.CreateModel(
            name='EarlyAnswer',
            fields=[
                ('id', models.UUIDField(default=checkpoints.ids.new, editable=False, primary_key=True, serialize=False)),
                ('node_id', models.CharField(blank=True, help_text="The step, or the other engine's node, whose question it is for.", max_length=200)),
                ('input_type', models.CharField(blank=True, max_length=100)),
                ('event', checkpoints.models.JsonTextField(help_text='The ResumeEvent.')),
                ('via', models.CharField(max_length=16)),
                ('status', models.CharField(choices=[('kept', 'Kept'), ('taking', 'Taking'), ('taken', 'Taken'), ('refused', 'Refused'), ('expired', 'Expired')], default='kept', max_length=16)),
                ('error', models.TextField(blank=True)),
                ('received_at', models.DateTimeField()),
                ('expires_at', models.DateTimeField()),
                ('changed_at', models.DateTimeField()),
            ],
            bases=(checkpoints.ids.HasShownId, models.Model),
        ),
        migrations.CreateModel(
            name='Endpoint',
            fields=[
                ('id', models.UUIDField(default=checkpoints.ids.new, editable=False, primary_key=True, serialize=False)),
                ('channel', models.CharField(choices=[('email', 'Mail'), ('apprise', 'Chat or push service'), ('slack', 'Slack, with buttons'), ('webhook', 'Webhook')], max_length=16)),
                ('name', models.CharField(blank=True, max_length=80)),
                ('target', models.TextField(blank=True, help_text="A mail address, an Apprise URL or a webhook's URL. It may hold secrets, so it is never shown.")),
                ('secrets', checkpoints.models.JsonTextField(default=list, help_text='[{"secret": "whsec_…", "until": null}], newest first; a webhook is signed with each.')),
                ('occasions', models.JSONField(blank=True, default=list, help_text='What it is told; all where this is empty.')),
                ('enabled', models.BooleanField(default=True)),
                ('why_disabled', models.CharField(blank=True, max_length=300)),
                ('made_at', models.DateTimeField(auto_now_add=True)),
            ],
            bases=(checkpoints.ids.HasShownId, models.Model),
        ),
        migrations.CreateModel(
            name='Erasure',
            fields=[
                ('id', models.UUIDField(default=checkpoints.ids.new, editable=False, primary_key=True, serialize=False)),
                ('thread_id', models.UUIDField(help_text='Of a thread that is not there any more.')),
                ('erased_by', models.CharField(max_length=150)),
                ('reason', models.TextField()),
                ('erased_at', models.DateTimeField()),
                ('counts', checkpoints.models.JsonTextField(help_text='Kind → rows that went.')),
                ('decisions', checkpoints.models.JsonTextField(help_text='Digests of the decisions whose words went: they vouch for the chain from now on.')),
                ('digest', models.CharField(max_length=64)),
            ],
            bases=(checkpoints.ids.HasShownId, models.Model),
        ),
        migrations.CreateModel(
            name='IdempotencyKey',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('key', models.CharField(max_length=255)),
                ('request_digest', models.CharField(help_text='Of method, address and body.', max_length=64)),
                ('status', models.PositiveSmallIntegerField(help_text='Of the answer; null while the request is worked on.', null=True)),
                ('body', models.BinaryField(default=bytes, help_text="Of the answer, sealed: with the server's own key where none is configured.")),
                ('content_type', models.CharField(blank=True, max_length=100)),
                ('kept', models.CharField(blank=True, choices=[('', 'Not answered yet'), ('whole', 'All of it'), ('secret', 'Nothing: it held a secret'), ('large', 'Nothing: it was too large'), ('erased', 'Nothing: what it spoke of was erased')], default='', max_length=8)),
                ('token', models.UUIDField(default=uuid.uuid4, help_text='Of the one request whose key this is; of two at once the other does nothing.')),
                ('made', models.TextField(blank=True, help_text='Ids of what was made or changed, with spaces between.')),
                ('about', models.TextField(blank=True, help_text='Ids that address and answer name: with what they stand for, the answer is erased.')),
                ('made_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='Import',
            fields=[
                ('thread', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='imported', serialize=False, to='checkpoints.thread')),
                ('at', models.DateTimeField(help_text='Checkpoints and events of the thread that are not younger came with the document.')),
                ('source', checkpoints.models.JsonTextField(help_text='thread, exported_at and digest as the document has them; runs, pauses and decisions with new ids.')),
            ],
        ),
        migrations.CreateModel(
            name='InboundMail',
            fields=[
                ('id', models.UUIDField(default=checkpoints.ids.new, editable=False, primary_key=True, serialize=False)),
                ('message_digest', models.CharField(help_text='Of its Message-ID.', max_length=64)),
                ('outcome', models.CharField(help_text='`answered`, `voted`, or why it was not.', max_length=64)),
                ('at', models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name='InboundSource',
            fields=[
                ('name', models.SlugField(max_length=80, primary_key=True, serialize=False)),
                ('secrets', checkpoints.models.JsonTextField(default=list, help_text='whsec_…, newest first; each of them signs, so that one can be replaced.')),
                ('active', models.BooleanField(default=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('last_used_at', models.DateTimeField(editable=False, null=True)),
            ],
        ),
        migrations.CreateModel(
            name='InboundStart',
            fields=[
                ('id', models.UUIDField(default=checkpoints.ids.new, editable=False, primary_key=True, serialize=False)),
                ('template', models.SlugField(help_text='Slug; each start takes the version that is current then.', max_length=80)),
                ('title', models.CharField(blank=True, max_length=200)),
                ('request', models.TextField(blank=True)),
                ('request_pointer', models.CharField(blank=True, help_text="Where in the message the request's words stand.", max_length=200)),
                ('input', checkpoints.models.JsonTextField(default=dict, help_text='Fields that are the same for each order.')),
                ('mapping', models.JSONField(blank=True, default=dict, help_text='Field of the input → JSON pointer: {"id": "/data/id"}')),
                ('repository_url', models.CharField(blank=True, max_length=500)),
                ('for_team', models.BooleanField(default=False, editable=False)),
                ('priority', models.SmallIntegerField(default=0, help_text='From -10 to 10: work with a higher priority begins first. Above 0 takes the right runs.raise_priority.', validators=[django.core.validators.MinValueValidator(-10), django.core.validators.MaxValueValidator(10)])),
                ('made_at', models.DateTimeField(auto_now_add=True)),
            ],
            bases=(checkpoints.ids.HasShownId, models.Model),
        ),
        migrations.CreateModel(
            name='LangGraphRun',
            fields=[
                ('wire_id', models.UUIDField(primary_key=True, serialize=False)),
                ('metadata', checkpoints.models.JsonTextField(default=dict)),
                ('hidden_at', models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='LangGraphTag',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=100)),
                ('digest', models.CharField(max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name='LangGraphThread',
            fields=[
                ('thread', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='langgraph', serialize=False, to='checkpoints.thread')),
                ('wire_id', models.UUIDField(default=uuid.uuid4, unique=True)),
                ('metadata', checkpoints.models.JsonTextField(default=dict)),
                ('hidden_at', models.DateTimeField(help_text='When a client deleted it: this door shows it no more.', null=True)),
            ],
        ),
        migrations.CreateModel(
            name='Ledger',
            fields=[
                ('name', models.CharField(max_length=80, primary_key=True, serialize=False)),
                ('length', models.PositiveBigIntegerField(default=0)),
                ('tip', models.CharField(blank=True, help_text='Digest of the newest decision.', max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name='Link',
            fields=[
                ('digest', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('revision', models.PositiveIntegerField()),
                ('contact', models.TextField(blank=True, help_text="As the delivery's.")),
                ('purpose', models.CharField(choices=[('review', 'Look, then log in to answer'), ('answer', 'Answer without logging in'), ('reply', 'Answer by replying to its mail')], max_length=16)),
                ('made_at', models.DateTimeField()),
                ('expires_at', models.DateTimeField()),
                ('used_at', models.DateTimeField(null=True)),
                ('mails_back', models.PositiveSmallIntegerField(db_default=0, default=0, help_text='Mails that said what became of a reply to it.')),
            ],
        ),
        migrations.CreateModel(
            name='MembershipChange',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(auto_now_add=True)),
                ('added', checkpoints.models.JsonTextField(default=list)),
                ('removed', checkpoints.models.JsonTextField(default=list)),
                ('claims', checkpoints.models.JsonTextField(default=list, help_text='The values that the provider sent.')),
                ('refused', models.BooleanField(default=False, help_text='They may not log in any more; their tokens were revoked.')),
                ('provider', models.CharField(blank=True, db_default='', default='', help_text='Its kind: oidc or saml.', max_length=16)),
                ('connection', models.CharField(blank=True, choices=[('linked', 'Linked by the mail address'), ('connected', 'Connected by the person'), ('disconnected', 'Taken away by the person')], db_default='', default='', max_length=16)),
            ],
            options={
                'verbose_name': 'change by the identity provider',
                'verbose_name_plural': 'changes by the identity provider',
            },
        ),
        migrations.CreateModel(
            name='Mention',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('asked', models.BooleanField(default=False, help_text='Their opinion is asked: they see the question, and cannot answer it by this.')),
            ],
        ),
        migrations.CreateModel(
            name='OuterRun',
            fields=[
                ('id', models.UUIDField(default=checkpoints.ids.new, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(help_text="Its id in that engine; the owner's own.", max_length=200)),
            ],
        ),
        migrations.CreateModel(
            name='Preference',
            fields=[
                ('person', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('language', models.CharField(blank=True, db_default='', default='', help_text='The language of their mails, and of pages where a browser has chosen none.', max_length=8)),
                ('single_keys', models.BooleanField(db_default=True, default=True, help_text='Whether single keys answer and move on pages.')),
            ],
        ),
        migrations.CreateModel(
            name='Presence',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('writing', models.BooleanField(default=False)),
                ('until', models.DateTimeField(db_index=True, help_text='Past this time it says nothing; the next sweep drops it.')),
            ],
        ),
        migrations.CreateModel(
            name='SavedView',
            fields=[
                ('id', models.UUIDField(default=checkpoints.ids.new, editable=False, primary_key=True, serialize=False)),
                ('list', models.CharField(choices=[('inbox', 'Inbox'), ('orders', 'Work orders'), ('threads', 'Threads'), ('history', 'History')], max_length=16)),
                ('name', models.CharField(max_length=80)),
                ('query', models.CharField(blank=True, help_text="As the list's address has it.", max_length=2000)),
                ('made_at', models.DateTimeField(auto_now_add=True)),
            ],
            bases=(checkpoints.ids.HasShownId, models.Model),
        ),
        migrations.CreateModel(
            name='SeenFile',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.CharField(help_text="sha256 of the file's part of the patch.", max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name='ServiceAccount',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='service_account', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('purpose', models.CharField(max_length=200, verbose_name='purpose')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
            ],
            options={
                'verbose_name': 'service account',
                'verbose_name_plural': 'service accounts',
            },
        ),
        migrations.CreateModel(
            name='Snooze',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('until', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='StartDelivery',
            fields=[
                ('id', models.UUIDField(default=checkpoints.ids.new, editable=False, primary_key=True, serialize=False)),
                ('delivery_id', models.CharField(help_text='Its webhook-id.', max_length=200)),
                ('started', models.BooleanField(default=False)),
                ('code', models.CharField(blank=True, help_text='Why it started none.', max_length=64)),
                ('why', models.CharField(blank=True, max_length=500)),
                ('at', models.DateTimeField(auto_now_add=True)),
            ],
            options={
                'verbose_name_plural': 'start deliveries',
            },
            bases=(checkpoints.ids.HasShownId, models.Model),
        ),
        migrations.CreateModel(
            name='Vote',
            fields=[
                ('id', models.UUIDField(default=checkpoints.ids.new, editable=False, primary_key=True, serialize=False)),
                ('stage', models.CharField(blank=True, help_text='The stage of the review that it counts at; "" where the rules name none.', max_length=40)),
                ('action', models.CharField(max_length=64)),
                ('feedback', models.TextField(blank=True)),
                ('payload', checkpoints.models.JsonTextField(null=True)),
                ('edited_content', models.TextField(blank=True)),
                ('external', models.TextField(blank=True, help_text="As the decision's.")),
                ('external_key', models.CharField(help_text='Tells addresses apart: `hitl.decisions.reviewers.outsiders`.', max_length=40, null=True)),
                ('by_name', models.CharField(blank=True, help_text="As the decision's, like the next two.", max_length=301)),
                ('for_name', models.CharField(blank=True, max_length=301)),
                ('early_at', models.DateTimeField(null=True)),
                ('factor', models.CharField(blank=True, db_default='', default='', help_text="As the decision's, like the next one.", max_length=16)),
                ('factor_at', models.DateTimeField(null=True)),
                ('voted_at', models.DateTimeField()),
                ('via', models.CharField(choices=[('page', 'Page'), ('rest', 'Rest'), ('admin', 'Admin'), ('command', 'Command'), ('socket', 'Socket'), ('link', 'Link'), ('webhook', 'Webhook'), ('mail', 'Mail'), ('slack', 'Slack'), ('teams', 'Teams'), ('mcp', 'Mcp'), ('langgraph', 'LangGraph'), ('policy', 'Policy'), ('workflow', 'Workflow')], max_length=16)),
                ('content_digest', models.CharField(max_length=64)),
                ('digest', models.CharField(max_length=64)),
            ],
            bases=(checkpoints.ids.HasShownId, models.Model),
        ),
        migrations.CreateModel(
            name='Wait',
            fields=[
                ('id', models.UUIDField(default=checkpoints.ids.new, editable=False, primary_key=True, serialize=False)),
                ('node_id', models.CharField(help_text='Where that engine goes on.', max_length=200)),
                ('digest', models.CharField(help_text='Of all that was asked; of one that was asked anew, of that and its id.', max_length=64)),
                ('recipients', checkpoints.models.JsonTextField(default=list, help_text='Who is told beside those who may answer: address and question each.')),
                ('callback_url', models.TextField(blank=True, help_text='Where the answer is told; checked when it is sent.')),
                ('callback_secret', models.TextField(blank=True, help_text='whsec_…: signs what is sent there.')),
                ('reported', models.CharField(blank=True, choices=[('', 'Nothing'), ('running', 'Running'), ('completed', 'Completed'), ('failed', 'Failed')], db_default='', default='', help_text='What that engine said of its run since the answer; empty for nothing yet.', max_length=9)),
            ],
            bases=(checkpoints.ids.HasShownId, models.Model),
        ),
        migrations.CreateModel(
            name='ApiToken',
            fields=[
                ('id', models.UUIDField(default=checkpoints.ids.new, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=80)),
                ('scope', models.CharField(choices=[('read', 'Read'), ('ask', 'Ask: start work and read your own; never answer'), ('answer', 'Answer: read questions and answer them; never start work'), ('write', 'Read, start and answer')], default='write', max_length=8)),
                ('digest', models.CharField(editable=False, max_length=64, unique=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('last_used_at', models.DateTimeField(editable=False, null=True)),
                ('of_service', models.BooleanField(db_default=False, default=False, editable=False, help_text='Of an account without a person.')),
                ('made_by', models.ForeignKey(editable=False, help_text='Nobody where the shell made it.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('replaces', models.OneToOneField(editable=False, help_text='The token in whose place it came.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='replaced_by', to='hitl.apitoken')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='api_tokens', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'API token',
            },
        ),
        migrations.CreateModel(
            name='Batch',
            fields=[
                ('id', models.UUIDField(default=checkpoints.ids.new, editable=False, primary_key=True, serialize=False)),
                ('action', models.CharField(choices=[('retry', 'Retry'), ('cancel', 'Cancel'), ('fork', 'Fork')], max_length=16)),
                ('by_name', models.CharField(help_text='Their name at that time.', max_length=301)),
                ('reason', models.TextField(blank=True)),
                ('query', models.CharField(blank=True, help_text="How they were chosen, as the list's address has it.", max_length=2000)),
                ('step', models.CharField(blank=True, help_text='From which a fork goes on.', max_length=100)),
                ('orders', checkpoints.models.JsonTextField(help_text="The chosen orders' shown ids, in their order.")),
                ('results', checkpoints.models.JsonTextField(default=list, help_text='Of each order that was come to, in the same order: {order, run, code, words}: the run that goes on, or the refusal; all empty but order where it was cancelled.')),
                ('made_at', models.DateTimeField(auto_now_add=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('by', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name_plural': 'batches',
            },
            bases=(checkpoints.ids.HasShownId, models.Model),
        ),
        migrations.CreateModel(
            name='ChatAccount',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('service', models.CharField(choices=[('slack', 'Slack'), ('teams', 'Teams')], max_length=16)),
                ('team', models.CharField(help_text="Slack's id of the workspace (T…), or Teams' of the tenant.", max_length=100)),
                ('account', models.CharField(help_text="The service's id of the user, such as U… of Slack; not a name.", max_length=200)),
                ('made_at', models.DateTimeField(auto_now_add=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='chat_accounts', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='ClaimedGroup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('claim', models.CharField(help_text='A value of the groups claim, just as the provider sends it.', max_length=200)),
                ('group', models.ForeignKey(help_text='Our team.', on_delete=django.db.models.deletion.CASCADE, related_name='+', to='auth.group')),
            ],
            options={
                'verbose_name': 'group of the identity provider',
                'verbose_name_plural': 'groups of the identity provider',
            },
        ),
        migrations.CreateModel(
            name='Comment',
            fields=[
                ('id', models.UUIDField(default=checkpoints.ids.new, editable=False, primary_key=True, serialize=False)),
                ('by_name', models.CharField(help_text='What the author was called at that time.', max_length=301)),
                ('text', models.TextField(blank=True, help_text='Plain text; "" once it was taken back.')),
                ('path', models.TextField(blank=True, default='', help_text='The file of the patch that it is about; with `line`.')),
                ('line', models.PositiveIntegerField(help_text='The line of that file.', null=True)),
                ('side', models.CharField(blank=True, default='', help_text='Whether the line is counted before the change, `old`, or after it, `new`.', max_length=3)),
                ('made_at', models.DateTimeField(auto_now_add=True)),
                ('withdrawn_at', models.DateTimeField(null=True)),
                ('author', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            bases=(checkpoints.ids.HasShownId, models.Model),
        ),
        migrations.AddField(
            model_name='comment',
            name='pause',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='comments', to='runs.pause'),
        ),
        migrations.AddField(
            model_name='decision',
            name='decided_by',
            field=models.ForeignKey(help_text='Nobody where the rules answered.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='decisions', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='decision',
            name='on_behalf_of',
            field=models.ForeignKey(help_text='For whom it was given, by a delegation.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='decision',
            name='pause',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='decisions', to='runs.pause'),
        ),
        migrations.AddField(
            model_name='decision',
            name='undoes',
            field=models.OneToOneField(help_text='The answer this takes back.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='undone_by', to='hitl.decision'),
        ),
        migrations.AddField(
            model_name='delegation',
            name='created_by',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='delegation',
            name='from_user',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='delegations_given', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='delegation',
            name='pause',
            field=models.ForeignKey(blank=True, help_text='The one question that was handed over; null where it is of all.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='delegations', to='runs.pause'),
        ),
        migrations.AddField(
            model_name='delegation',
            name='to_user',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='delegations_taken', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='delivery',
            name='pause',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='deliveries', to='runs.pause'),
        ),
        migrations.AddField(
            model_name='delivery',
            name='recipient',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='deliveries', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='earlyanswer',
            name='by',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='earlyanswer',
            name='pause',
            field=models.ForeignKey(help_text='The question that it was given to.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='early_answers', to='runs.pause'),
        ),
        migrations.AddField(
            model_name='earlyanswer',
            name='run',
            field=models.ForeignKey(help_text='Null for a run of another engine.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='runs.run'),
        ),
        migrations.AddField(
            model_name='earlyanswer',
            name='thread',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='checkpoints.thread'),
        ),
        migrations.AddField(
            model_name='earlyanswer',
            name='token',
            field=models.ForeignKey(help_text='The one that sent it; null where a person, a process or a source did.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='hitl.apitoken'),
        ),
        migrations.AddField(
            model_name='endpoint',
            name='owner',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='endpoints', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='endpoint',
            name='team',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='endpoints', to='auth.group'),
        ),
        migrations.AddField(
            model_name='endpoint',
            name='thread',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='endpoints', to='checkpoints.thread'),
        ),
        migrations.AddField(
            model_name='delivery',
            name='endpoint',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='deliveries', to='hitl.endpoint'),
        ),
        migrations.AddField(
            model_name='decision',
            name='erasure',
            field=models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='hitl.erasure'),
        ),
        migrations.AddField(
            model_name='idempotencykey',
            name='user',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='import',
            name='imported_by',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='import',
            name='within',
            field=models.ForeignKey(help_text='The thread whose document brought it: it is of a child run.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='brought', to='checkpoints.thread'),
        ),
        migrations.AddField(
            model_name='inboundsource',
            name='user',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='inbound_sources', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='inboundstart',
            name='source',
            field=models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='start', to='hitl.inboundsource'),
        ),
        migrations.AddField(
            model_name='inboundstart',
            name='team',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='auth.group'),
        ),
        migrations.AddField(
            model_name='langgraphrun',
            name='thread',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='checkpoints.thread'),
        ),
        migrations.AddField(
            model_name='langgraphtag',
            name='thread',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='tags', to='hitl.langgraphthread'),
        ),
        migrations.AddField(
            model_name='decision',
            name='ledger',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='decisions', to='hitl.ledger'),
        ),
        migrations.AddField(
            model_name='anchor',
            name='ledger',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='anchors', to='hitl.ledger'),
        ),
        migrations.AddField(
            model_name='link',
            name='delivery',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='links', to='hitl.delivery'),
        ),
        migrations.AddField(
            model_name='link',
            name='pause',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='links', to='runs.pause'),
        ),
        migrations.AddField(
            model_name='link',
            name='recipient',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='inboundmail',
            name='link',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='mails', to='hitl.link'),
        ),
        migrations.AddField(
            model_name='membershipchange',
            name='user',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='mention',
            name='comment',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='mentions', to='hitl.comment'),
        ),
        migrations.AddField(
            model_name='mention',
            name='person',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='mentions', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='outerrun',
            name='owner',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='outerrun',
            name='thread',
            field=models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='outer_run', to='checkpoints.thread'),
        ),
        migrations.AddField(
            model_name='presence',
            name='pause',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='presences', to='runs.pause'),
        ),
        migrations.AddField(
            model_name='presence',
            name='person',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='savedview',
            name='owner',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='saved_views', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='savedview',
            name='team',
            field=models.ForeignKey(blank=True, help_text='Its members see it too; its owner alone changes it.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='auth.group'),
        ),
        migrations.AddField(
            model_name='seenfile',
            name='person',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='seenfile',
            name='thread',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='checkpoints.thread'),
        ),
        migrations.AddField(
            model_name='serviceaccount',
            name='made_by',
            field=models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='snooze',
            name='pause',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='snoozes', to='runs.pause'),
        ),
        migrations.AddField(
            model_name='snooze',
            name='person',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='startdelivery',
            name='order',
            field=models.OneToOneField(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='start_delivery', to='runs.workorder'),
        ),
        migrations.AddField(
            model_name='startdelivery',
            name='start',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='hitl.inboundstart'),
        ),
        migrations.AddField(
            model_name='vote',
            name='pause',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='votes', to='runs.pause'),
        ),
        migrations.AddField(
            model_name='vote',
            name='seat',
            field=models.ForeignKey(help_text="Whose vote it is: the voter's own, or by a delegation.", null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='vote',
            name='voter',
            field=models.ForeignKey(help_text='Null where external.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='wait',
            name='outer',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='waits', to='hitl.outerrun'),
        ),
        migrations.AddField(
            model_name='wait',
            name='pause',
            field=models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, related_name='wait', to='runs.pause'),
        ),
        migrations.AddField(
            model_name='wait',
            name='token',
            field=models.ForeignKey(help_text='The one that asked, which never answers; null where a person or a process did.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='waits', to='hitl.apitoken'),
        ),
        migrations.AddConstraint(
            model_name='apitoken',
            constraint=models.CheckConstraint(condition=models.Q(('scope__in', ['read', 'ask', 'answer', 'write'])), name='token_scope_known'),
        ),
        migrations.AddConstraint(
            model_name='apitoken',
            constraint=models.CheckConstraint(condition=models.Q(('of_service', False), models.Q(('expires_at__isnull', False), ('scope__in', ('read', 'ask'))), _connector='OR'), name='token_of_service_asks_and_ends'),
        ),
        migrations.AddConstraint(
            model_name='chataccount',
            constraint=models.UniqueConstraint(fields=('service', 'team', 'account'), name='chat_account_is_one_persons'),
        ),
        migrations.AddConstraint(
            model_name='claimedgroup',
            constraint=models.UniqueConstraint(fields=('claim', 'group'), name='claimed_group_once'),
        ),
        migrations.AddIndex(
            model_name='comment',
            index=models.Index(fields=['pause', 'id'], name='comment_by_pause'),
        ),
        migrations.AddConstraint(
            model_name='comment',
            constraint=models.CheckConstraint(condition=models.Q(('withdrawn_at', None), ('text', ''), _connector='OR'), name='comment_withdrawn_says_nothing'),
        ),
        migrations.AddConstraint(
            model_name='comment',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('line', None), ('side', '')), models.Q(('line__gte', 1), ('side__in', ['old', 'new'])), _connector='OR'), name='comment_line_has_a_side'),
        ),
        migrations.AddIndex(
            model_name='delegation',
            index=models.Index(fields=['to_user', 'ends_at'], name='delegation_by_delegate'),
        ),
        migrations.AddConstraint(
            model_name='delegation',
            constraint=models.CheckConstraint(condition=models.Q(('from_user', models.F('to_user')), _negated=True), name='delegation_to_another'),
        ),
        migrations.AddConstraint(
            model_name='delegation',
            constraint=models.CheckConstraint(condition=models.Q(('ends_at__gte', models.F('starts_at'))), name='delegation_ends_after_start'),
        ),
        migrations.AddIndex(
            model_name='earlyanswer',
            index=models.Index(condition=models.Q(('status__in', ['kept', 'taking'])), fields=['expires_at'], name='early_answer_by_expiry'),
        ),
        migrations.AddConstraint(
            model_name='earlyanswer',
            constraint=models.UniqueConstraint(condition=models.Q(('status', 'kept')), fields=('thread', 'node_id', 'input_type'), name='early_answer_one_per_question'),
        ),
        migrations.AddConstraint(
            model_name='earlyanswer',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('pause__isnull', True), ('status__in', ['kept', 'expired'])), models.Q(('pause__isnull', False), ('status__in', ['taking', 'taken', 'refused'])), _connector='OR'), name='early_answer_has_its_question'),
        ),
        migrations.AddConstraint(
            model_name='earlyanswer',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('node_id', ''), _negated=True), models.Q(('input_type', ''), _negated=True), _connector='OR'), name='early_answer_names_its_question'),
        ),
        migrations.AddConstraint(
            model_name='endpoint',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('owner', None), ('team', None)), models.Q(('owner', None), ('thread', None)), models.Q(('team', None), ('thread', None)), _connector='OR'), name='endpoint_one_owner'),
        ),
        migrations.AddConstraint(
            model_name='endpoint',
            constraint=models.UniqueConstraint(condition=models.Q(('channel', 'email')), fields=('owner',), name='endpoint_one_mail_per_person'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(condition=models.Q(('status', 'queued')), fields=['next_at'], name='delivery_queued_by_time'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(condition=models.Q(('status', 'sending')), fields=['lease_until'], name='delivery_sending_by_lease'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(condition=models.Q(('status', 'dead')), fields=['-id'], name='delivery_dead'),
        ),
        migrations.AddConstraint(
            model_name='delivery',
            constraint=models.UniqueConstraint(fields=('pause', 'occasion', 'mark', 'place'), name='delivery_once'),
        ),
        migrations.AddConstraint(
            model_name='delivery',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('lease_until__isnull', False), ('status', 'sending')), models.Q(models.Q(('status', 'sending'), _negated=True), ('lease_until', None)), _connector='OR'), name='delivery_lease_only_while_sending'),
        ),
        migrations.AddConstraint(
            model_name='delivery',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('sent_at__isnull', False), ('status', 'sent')), models.Q(models.Q(('status', 'sent'), _negated=True), ('sent_at', None)), _connector='OR'), name='delivery_sent_at_if_sent'),
        ),
        migrations.AddIndex(
            model_name='idempotencykey',
            index=models.Index(fields=['made_at'], name='idempotency_by_age'),
        ),
        migrations.AddConstraint(
            model_name='idempotencykey',
            constraint=models.UniqueConstraint(fields=('user', 'key'), name='idempotency_key_once'),
        ),
        migrations.AddConstraint(
            model_name='idempotencykey',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('kept', ''), ('status', None)), models.Q(('status__isnull', False), models.Q(('kept', ''), _negated=True)), _connector='OR'), name='idempotency_answered_once'),
        ),
        migrations.AddConstraint(
            model_name='inboundstart',
            constraint=models.CheckConstraint(condition=models.Q(('priority__gte', -10), ('priority__lte', 10)), name='inbound_start_priority_bounded'),
        ),
        migrations.AddIndex(
            model_name='langgraphtag',
            index=models.Index(fields=['key', 'digest'], name='langgraph_tag_by_value'),
        ),
        migrations.AddConstraint(
            model_name='langgraphtag',
            constraint=models.UniqueConstraint(fields=('thread', 'key'), name='langgraph_tag_once'),
        ),
        migrations.AddIndex(
            model_name='decision',
            index=models.Index(fields=['decided_by', '-id'], name='decision_by_person'),
        ),
        migrations.AddIndex(
            model_name='decision',
            index=models.Index(fields=['-decided_at', '-id'], name='decision_by_time'),
        ),
        migrations.AddConstraint(
            model_name='decision',
            constraint=models.UniqueConstraint(condition=models.Q(('undoes__isnull', True)), fields=('pause',), name='decision_one_per_pause'),
        ),
        migrations.AddConstraint(
            model_name='decision',
            constraint=models.CheckConstraint(condition=models.Q(('undoes__isnull', True), ('action', 'undo'), _connector='OR'), name='decision_undoes_by_undo'),
        ),
        migrations.AddConstraint(
            model_name='decision',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('erasure__isnull', True), ('pause__isnull', False)), models.Q(('by_name', ''), ('edited_content', ''), ('erasure__isnull', False), ('external', ''), ('feedback', ''), ('for_name', ''), ('pause__isnull', True), ('payload__isnull', True)), _connector='OR'), name='decision_says_nothing_if_erased'),
        ),
        migrations.AddConstraint(
            model_name='decision',
            constraint=models.UniqueConstraint(fields=('ledger', 'position'), name='decision_position_once'),
        ),
        migrations.AddConstraint(
            model_name='decision',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('decided_by__isnull', False), ('external', ''), models.Q(('via__in', ('policy', 'workflow')), _negated=True)), models.Q(('decided_by__isnull', True), ('external', ''), ('via__in', ('policy', 'workflow'))), models.Q(('decided_by__isnull', True), ('via', 'link'), models.Q(models.Q(('external', ''), _negated=True), ('erasure__isnull', False), _connector='OR')), _connector='OR'), name='decision_by_one_only'),
        ),
        migrations.AddConstraint(
            model_name='decision',
            constraint=models.CheckConstraint(condition=models.Q(('data_only', False), models.Q(('action', 'answer'), ('data_only', True), ('decided_by__isnull', True), ('via', 'link')), _connector='OR'), name='decision_data_only_approves_nothing'),
        ),
        migrations.AddConstraint(
            model_name='decision',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('factor', ''), ('factor_at__isnull', True)), models.Q(models.Q(('factor', ''), _negated=True), ('decided_by__isnull', False), ('factor_at__isnull', False)), _connector='OR'), name='decision_factor_has_its_time'),
        ),
        migrations.AddConstraint(
            model_name='anchor',
            constraint=models.UniqueConstraint(fields=('ledger', 'day'), name='anchor_once_a_day'),
        ),
        migrations.AddConstraint(
            model_name='link',
            constraint=models.CheckConstraint(condition=models.Q(('expires_at__gt', models.F('made_at'))), name='link_expires_after_it_was_made'),
        ),
        migrations.AddConstraint(
            model_name='link',
            constraint=models.CheckConstraint(condition=models.Q(('used_at', None), models.Q(('purpose', 'review'), _negated=True), _connector='OR'), name='link_used_only_to_answer'),
        ),
        migrations.AddConstraint(
            model_name='link',
            constraint=models.CheckConstraint(condition=models.Q(('mails_back__lte', 4)), name='link_mails_back_bounded'),
        ),
        migrations.AddConstraint(
            model_name='inboundmail',
            constraint=models.UniqueConstraint(fields=('link', 'message_digest'), name='inbound_mail_once'),
        ),
        migrations.AddConstraint(
            model_name='mention',
            constraint=models.UniqueConstraint(fields=('comment', 'person'), name='mention_once'),
        ),
        migrations.AddIndex(
            model_name='outerrun',
            index=models.Index(fields=['name'], name='outer_run_by_name'),
        ),
        migrations.AddConstraint(
            model_name='outerrun',
            constraint=models.UniqueConstraint(fields=('owner', 'name'), name='outer_run_name_once'),
        ),
        migrations.AddConstraint(
            model_name='presence',
            constraint=models.UniqueConstraint(fields=('pause', 'person'), name='presence_one_per_person'),
        ),
        migrations.AddConstraint(
            model_name='savedview',
            constraint=models.UniqueConstraint(fields=('owner', 'list', 'name'), name='saved_view_named_once'),
        ),
        migrations.AddConstraint(
            model_name='savedview',
            constraint=models.CheckConstraint(condition=models.Q(('name', ''), _negated=True), name='saved_view_has_name'),
        ),
        migrations.AddConstraint(
            model_name='seenfile',
            constraint=models.UniqueConstraint(fields=('thread', 'person', 'digest'), name='seen_file_once'),
        ),
        migrations.AddConstraint(
            model_name='snooze',
            constraint=models.UniqueConstraint(fields=('pause', 'person'), name='snooze_one_per_person'),
        ),
        migrations.AddConstraint(
            model_name='startdelivery',
            constraint=models.UniqueConstraint(condition=models.Q(('started', True)), fields=('start', 'delivery_id'), name='start_delivery_once'),
        ),
        migrations.AddConstraint(
            model_name='startdelivery',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('code', ''), ('started', True)), models.Q(('order', None), ('started', False), models.Q(('code', ''), _negated=True)), _connector='OR'), name='start_delivery_started_or_refused'),
        ),
        migrations.AddConstraint(
            model_name='vote',
            constraint=models.UniqueConstraint(fields=('pause', 'voter'), name='vote_one_per_person'),
        ),
        migrations.AddConstraint(
            model_name='vote',
            constraint=models.UniqueConstraint(fields=('pause', 'seat'), name='vote_one_per_seat'),
        ),
        migrations.AddConstraint(
            model_name='vote',
            constraint=models.UniqueConstraint(fields=('pause', 'external_key'), name='vote_one_per_address'),
        ),
        migrations.AddConstraint(
            model_name='vote',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('external', ''), ('external_key__isnull', True), ('seat__isnull', False), ('voter__isnull', False)), models.Q(('external_key__isnull', False), ('seat__isnull', True), ('via', 'link'), ('voter__isnull', True), models.Q(('external', ''), _negated=True)), _connector='OR'), name='vote_by_one_only'),
        ),
        migrations.AddConstraint(
            model_name='vote',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('factor', ''), ('factor_at__isnull', True)), models.Q(models.Q(('factor', ''), _negated=True), ('factor_at__isnull', False), ('voter__isnull', False)), _connector='OR'), name='vote_factor_has_its_time'),
        ),
        migrations.AddConstraint(
            model_name='wait',
            constraint=models.UniqueConstraint(fields=('outer', 'digest'), name='wait_same_once'),
        ),
    ]
