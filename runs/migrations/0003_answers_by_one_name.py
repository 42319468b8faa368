import checkpoints.models
from django.db import migrations


class Migration(migrations.Migration):
    """Call what a question can be answered with by one name, `answers`, as the SDK and REST do.

    Their columns keep their names: processes of the version before read them while it is deployed.
    """

    dependencies = [
        ('runs', '0002_what_a_row_says'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameField(model_name='pause', old_name='ways', new_name='answers'),
                migrations.RenameField(
                    model_name='pause', old_name='bare', new_name='answers_without_input'
                ),
                migrations.AlterField(
                    model_name='pause',
                    name='answers',
                    field=checkpoints.models.JsonTextField(
                        db_column='ways', help_text='Answer → the step it leads to.'
                    ),
                ),
                migrations.AlterField(
                    model_name='pause',
                    name='answers_without_input',
                    field=checkpoints.models.JsonTextField(
                        db_column='bare',
                        default=list,
                        help_text='Answers that bring no data, beside revise and cancel.',
                    ),
                ),
            ]
        ),
    ]
