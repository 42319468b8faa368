"""The right to have mail sent to people without an account."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("hitl", "0015_imported")]
    operations = [
        migrations.AlterModelOptions(
            name="delivery",
            options={
                "permissions": [("mail_outside", "Can have mail sent to any address")],
                "verbose_name_plural": "deliveries",
            },
        )
    ]
