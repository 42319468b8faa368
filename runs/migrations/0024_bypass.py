from collections.abc import Callable

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

OLD, NEW = "Can step around a review", "Can bypass a review"


def rename(old: str, new: str) -> Callable[[Apps, BaseDatabaseSchemaEditor], None]:
    """The label of the right in tables that have it already: Django writes a right's name only once."""

    def run(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
        rights = apps.get_model("auth", "Permission").objects.using(editor.connection.alias)
        rights.filter(codename="step_around_review", name=old).update(name=new)

    return run


class Migration(migrations.Migration):
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("runs", "0023_rights"),
    ]

    operations = [
        migrations.AlterModelOptions(name="run", options={"permissions": [("step_around_review", NEW)]}),
        migrations.RunPython(rename(OLD, NEW), rename(NEW, OLD)),
    ]
