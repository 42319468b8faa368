from django.db import migrations


class Migration(migrations.Migration):
    """Call what a question can be answered with by one name, `answers`, as the SDK and REST do."""

    dependencies = [
        ('runs', '0002_what_a_row_says'),
    ]

    operations = [
        migrations.RenameField(model_name='pause', old_name='ways', new_name='answers'),
        migrations.RenameField(
            model_name='pause', old_name='bare', new_name='answers_without_input'
        ),
    ]
