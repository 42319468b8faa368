from django.db import migrations, models

from checkpoints.database.migrating import AddCheckBeside


class Migration(migrations.Migration):
    """The looser check in place of the one that 0018 took away."""

    atomic = False
    dependencies = [("hitl", "0018_passed_by_the_workflow")]
    operations = [
        AddCheckBeside(
            model_name="decision",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("decided_by__isnull", False),
                        ("external", ""),
                        models.Q(("via__in", ("policy", "workflow")), _negated=True),
                    ),
                    models.Q(
                        ("decided_by__isnull", True),
                        ("external", ""),
                        ("via__in", ("policy", "workflow")),
                    ),
                    models.Q(
                        ("decided_by__isnull", True),
                        ("via", "link"),
                        models.Q(
                            models.Q(("external", ""), _negated=True),
                            ("erasure__isnull", False),
                            _connector="OR",
                        ),
                    ),
                    _connector="OR",
                ),
                name="decision_by_one_only",
            ),
        ),
    ]
