"""A thread's head is one of its own checkpoints, and says so without an index that each step would have to change."""

import django.db.models.deletion
from django.db import migrations, models

OWN_HEAD = """
    ALTER TABLE checkpoints_thread ADD CONSTRAINT thread_head_is_its_own FOREIGN KEY (id, head_id)
        REFERENCES checkpoints_checkpoint (thread_id, id) DEFERRABLE INITIALLY DEFERRED"""
ANY_HEAD = """
    ALTER TABLE checkpoints_thread ADD CONSTRAINT checkpoints_thread_head_id_b88a68cc_fk_checkpoin FOREIGN KEY (head_id)
        REFERENCES checkpoints_checkpoint (id) DEFERRABLE INITIALLY DEFERRED"""


def own_head(apps, editor):
    """In place of the foreign key on `head_id` alone: where a checkpoint is deleted, this one looks its thread up by key."""
    if editor.connection.vendor != "postgresql":
        return
    with editor.connection.cursor() as cursor:
        constraints = editor.connection.introspection.get_constraints(cursor, "checkpoints_thread")
    for name, found in constraints.items():
        if found["foreign_key"] and found["columns"] == ["head_id"]:
            editor.execute(f"ALTER TABLE checkpoints_thread DROP CONSTRAINT {editor.quote_name(name)}")
    editor.execute(OWN_HEAD)


def any_head(apps, editor):
    if editor.connection.vendor == "postgresql":
        editor.execute("ALTER TABLE checkpoints_thread DROP CONSTRAINT thread_head_is_its_own")
        editor.execute(ANY_HEAD)


class Migration(migrations.Migration):
    dependencies = [("checkpoints", "0007_forensics")]

    operations = [
        migrations.AddConstraint(
            model_name="checkpoint",
            constraint=models.UniqueConstraint(fields=("thread", "id"), name="checkpoint_of_one_thread"),
        ),
        migrations.RemoveIndex(model_name="checkpoint", name="checkpoint_by_thread"),
        migrations.AlterField(
            model_name="thread",
            name="head",
            field=models.ForeignKey(
                db_index=False,
                editable=False,
                help_text="The checkpoint a run goes on from.",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="checkpoints.checkpoint",
            ),
        ),
        migrations.RunPython(own_head, any_head),
    ]
