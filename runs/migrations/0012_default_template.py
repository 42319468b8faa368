from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0011_deaths")]

    operations = [
        migrations.AddField(
            model_name="templateaccess",
            name="default",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text=(
                    "Orders that name no template go by this one, where their repository has no "
                    "default of its own."
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="templateaccess",
            constraint=models.UniqueConstraint(
                condition=models.Q(("default", True)),
                fields=("default",),
                name="template_default_once",
                violation_error_message="Another template is the default. Take that back first.",
            ),
        ),
    ]
