"""The history of what people set, and two roles: who may set limits, and who may look."""

import django.db.models.deletion
import django.utils.timezone
from django.contrib.auth.management import create_permissions
from django.db import migrations, models

VIEWED = (
    *(
        "tier",
        "lengthclass",
        "servedmodel",
        "queuelimit",
        "workerlimit",
        "worker",
        "tenant",
        "apikey",
        "membership",
    ),
    *("job", "jobevent", "edit", "price", "budget", "usage"),
)
SET = ("tier", "lengthclass", "servedmodel", "queuelimit", "workerlimit", "tenant", "job")
"""By operators: limits, pauses, and what becomes of jobs. Not keys, people, prices, or what an engine starts with."""


def make_roles(apps, schema_editor):
    config, alias = apps.get_app_config("inference"), schema_editor.connection.alias
    config.models_module = True  # else it would be taken to have no models
    create_permissions(config, verbosity=0, using=alias, apps=apps)
    config.models_module = None
    may_look = {f"view_{name}" for name in VIEWED}
    for role, codenames in {"viewer": may_look, "operator": may_look | {f"change_{name}" for name in SET}}.items():
        group, _ = apps.get_model("auth", "Group").objects.using(alias).get_or_create(name=role)
        permissions = apps.get_model("auth", "Permission").objects.using(alias)
        group.permissions.add(*permissions.filter(content_type__app_label="inference", codename__in=codenames))


def remove_roles(apps, schema_editor):
    groups = apps.get_model("auth", "Group").objects.using(schema_editor.connection.alias)
    groups.filter(name__in=["viewer", "operator"]).delete()


class Migration(migrations.Migration):
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
        ("inference", "0010_keep_usage"),
    ]

    operations = [
        migrations.CreateModel(
            name="Edit",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
                ("by", models.CharField(help_text="A user, a key or a command.", max_length=200)),
                (
                    "kind",
                    models.CharField(
                        choices=[("created", "Created"), ("changed", "Changed"), ("deleted", "Deleted")],
                        max_length=8,
                    ),
                ),
                ("table", models.CharField(help_text="The model's name.", max_length=32, verbose_name="what")),
                ("row", models.CharField(help_text="The row's name.", max_length=192)),
                (
                    "values",
                    models.JSONField(
                        default=dict, help_text='Changed fields, as {"weight": [1, 3]}: from and to.'
                    ),
                ),
                (
                    "undoes",
                    models.ForeignKey(
                        blank=True,
                        help_text="The edit it reverts.",
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="inference.edit",
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
                "indexes": [models.Index(fields=["table", "row", "-id"], name="edit_by_row")],
            },
        ),
        migrations.AlterField(
            model_name="membership",
            name="tenant",
            field=models.ForeignKey(
                help_text="Whose jobs the user submits and sees. Operators without one: the default tenant.",
                on_delete=django.db.models.deletion.PROTECT,
                related_name="memberships",
                to="inference.tenant",
            ),
        ),
        migrations.RunPython(make_roles, remove_roles),
    ]
