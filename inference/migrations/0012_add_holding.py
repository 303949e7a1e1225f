"""What a tier's full queues do with more: refuse it, or hold calls for a while. Bulk's hold."""

import django.core.validators
from django.db import migrations, models


def let_bulk_hold(apps, schema_editor):
    tiers = apps.get_model("inference", "Tier").objects.using(schema_editor.connection.alias)
    tiers.filter(name="bulk").update(on_full="hold")


class Migration(migrations.Migration):
    dependencies = [
        ("inference", "0011_add_edits_and_roles"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="hold_ends_at",
            field=models.DateTimeField(
                blank=True,
                help_text="Its queue was full: it expires unless it started by then. Empty once it did.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="tier",
            name="hold_seconds",
            field=models.FloatField(
                default=20,
                help_text="A call on hold that has not started after so long gets 429.",
                validators=[django.core.validators.MinValueValidator(0.1)],
            ),
        ),
        migrations.AddField(
            model_name="tier",
            name="max_held_jobs",
            field=models.PositiveIntegerField(
                default=2000,
                help_text="Most calls on hold at once in each of its queues, beyond the caps above; more get 429 at "
                "once.",
            ),
        ),
        migrations.AddField(
            model_name="tier",
            name="on_full",
            field=models.CharField(
                choices=[("reject", "reject"), ("hold", "hold")],
                default="reject",
                help_text="What its full queues do with more. reject: 429 at once. hold: calls whose client waits "
                "for the answer are taken all the same, on hold: they start in time, or get 429; all others get 429 "
                "at once.",
                max_length=8,
                verbose_name="when full",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("hold_ends_at__isnull", False)), fields=["hold_ends_at"], name="job_hold"
            ),
        ),
        migrations.RunPython(let_bulk_hold, migrations.RunPython.noop),
    ]
