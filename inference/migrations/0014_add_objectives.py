"""Objectives: which share of a tier's jobs should start in time. Of bulk no more is taken than starts in time."""

import django.core.validators
from django.db import migrations, models

SHARES = {"realtime": 0.95, "standard": 0.95, "bulk": 0.999}
DAY_SECONDS = 86_400


def set_defaults(apps, schema_editor):
    for tier, share in SHARES.items():
        apps.get_model("inference", "Tier").objects.filter(name=tier).update(objective_share=share)
    bulk = apps.get_model("inference", "Tier").objects.filter(name="bulk", max_wait_seconds=None)
    bulk.filter(start_deadline_seconds__gte=DAY_SECONDS).update(max_wait_seconds=DAY_SECONDS)


class Migration(migrations.Migration):
    dependencies = [
        ("inference", "0013_add_spilling"),
    ]

    operations = [
        migrations.AddField(
            model_name="tier",
            name="objective_share",
            field=models.FloatField(
                "objective",
                blank=True,
                help_text="Share of the jobs that should start in time, as 0.95; shown as kept or missed, and decides nothing; empty for none.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(0.01),
                    django.core.validators.MaxValueValidator(1),
                ],
            ),
        ),
        migrations.AlterField(
            model_name="tier",
            name="target_wait_seconds",
            field=models.FloatField(
                blank=True,
                help_text="A job that starts within this starts in time; empty: one that starts before its deadline does.",
                null=True,
            ),
        ),
        migrations.RunPython(set_defaults, migrations.RunPython.noop),
    ]
