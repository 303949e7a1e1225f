"""What a full queue does with a synchronous call: refuse it, or hold it for a while."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("inference", "0011_add_edits_and_roles"),
    ]

    operations = [
        migrations.AddField(
            model_name="tier",
            name="on_full",
            field=models.CharField(
                "when full",
                choices=[("reject", "reject"), ("hold", "hold")],
                default="reject",
                help_text="hold: a synchronous call waits at a full queue, and gets 429 if it has not started by then.",
                max_length=8,
            ),
        ),
        migrations.AddField(
            model_name="tier",
            name="hold_seconds",
            field=models.FloatField(
                default=20,
                help_text="Longest such wait of a call on hold.",
                validators=[django.core.validators.MinValueValidator(0.1)],
            ),
        ),
        migrations.AddField(
            model_name="tier",
            name="max_held_jobs",
            field=models.PositiveIntegerField(
                default=2000, help_text="Most calls on hold at once in each of its queues, beside the caps."
            ),
        ),
    ]
