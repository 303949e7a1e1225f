"""Guards at the claim: the reserve, shares, caps in flight, gather windows; a queue's limits beside its cap."""

import django.core.validators
from django.db import migrations, models


def set_defaults(apps, schema_editor):
    tiers = apps.get_model("inference", "Tier").objects
    tiers.filter(name="realtime").update(uses_reserve=True)
    tiers.filter(name="bulk").update(max_share=0.9)


def drop_rows_without_cap(apps, schema_editor):
    """Before this migration a row was a cap: one without would stop the way back."""
    apps.get_model("inference", "QueueLimit").objects.filter(max_jobs=None).delete()


class Migration(migrations.Migration):
    dependencies = [
        ("inference", "0004_name_external_engines"),
    ]

    operations = [
        migrations.RenameModel("QueueCap", "QueueLimit"),
        migrations.AlterField(
            model_name="queuelimit",
            name="max_jobs",
            field=models.PositiveIntegerField(
                blank=True,
                null=True,
                help_text="Most jobs that may wait; others get 429. 0 closes it; empty for the default.",
            ),
        ),
        migrations.AddField(
            model_name="queuelimit",
            name="max_in_flight",
            field=models.PositiveIntegerField(
                blank=True,
                null=True,
                help_text="Most jobs that may run at once over all workers; empty for no bound.",
            ),
        ),
        migrations.AddField(
            model_name="queuelimit",
            name="is_paused",
            field=models.BooleanField(
                "paused", default=False, help_text="Nothing is claimed; jobs are still taken."
            ),
        ),
        migrations.AddField(
            model_name="queuelimit",
            name="is_draining",
            field=models.BooleanField(
                "draining", default=False, help_text="No more jobs are taken; those that wait are worked off."
            ),
        ),
        migrations.AddField(
            model_name="lengthclass",
            name="max_in_flight",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Most jobs that may run at once, per model, over all workers; empty for no bound.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="servedmodel",
            name="max_in_flight",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Most jobs that may run at once over all workers; empty for no bound.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="servedmodel",
            name="reserve_share",
            field=models.FloatField(
                default=0.05,
                help_text="Of each worker's slots and KV tokens, for tiers that use the reserve only; at least one slot from 8 slots up, none below.",
                validators=[
                    django.core.validators.MinValueValidator(0),
                    django.core.validators.MaxValueValidator(0.5),
                ],
            ),
        ),
        migrations.AddField(
            model_name="tier",
            name="gather_jobs",
            field=models.PositiveIntegerField(
                default=0,
                help_text="A worker with other work waits until this many jobs wait here, or for the gather time; 0: it never waits.",
            ),
        ),
        migrations.AddField(
            model_name="tier",
            name="gather_seconds",
            field=models.FloatField(
                default=0,
                help_text="Longest such wait of the oldest job; 0: none.",
                validators=[django.core.validators.MinValueValidator(0)],
            ),
        ),
        migrations.AddField(
            model_name="tier",
            name="max_attempts",
            field=models.PositiveSmallIntegerField(
                default=3,
                help_text="A job whose worker died this often is failed; it can be retried by hand.",
                validators=[django.core.validators.MinValueValidator(1)],
            ),
        ),
        migrations.AddField(
            model_name="tier",
            name="max_in_flight",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Most jobs that may run at once, per model, over all workers; empty for no bound.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="tier",
            name="max_share",
            field=models.FloatField(
                default=1,
                help_text="Of a worker's slots and KV tokens, while tiers with a share of 1 have work or had some in the last 10 s; at least one slot. 1: no such bound.",
                validators=[
                    django.core.validators.MinValueValidator(0.01),
                    django.core.validators.MaxValueValidator(1),
                ],
            ),
        ),
        migrations.AddField(
            model_name="tier",
            name="uses_reserve",
            field=models.BooleanField(
                default=False,
                help_text="May take the slots and KV tokens that each worker reserves (see the model).",
            ),
        ),
        migrations.RunPython(set_defaults, drop_rows_without_cap),
    ]
