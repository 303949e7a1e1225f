"""Rates and default output of a model are what estimates start with, before anything was measured."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("inference", "0007_add_stall_seconds"),
    ]

    operations = [
        migrations.AlterField(
            model_name="servedmodel",
            name="decode_tokens_per_second",
            field=models.FloatField(
                default=25,
                help_text="Of one sequence's output, likewise.",
                validators=[django.core.validators.MinValueValidator(0.001)],
            ),
        ),
        migrations.AlterField(
            model_name="servedmodel",
            name="default_output_tokens",
            field=models.PositiveIntegerField(
                default=256,
                help_text="Output expected of the first jobs of a key, until it is known what they bring.",
            ),
        ),
        migrations.AlterField(
            model_name="servedmodel",
            name="prefill_tokens_per_second",
            field=models.FloatField(
                default=4000,
                help_text="Of the prompt, for estimates until enough calls were measured.",
                validators=[django.core.validators.MinValueValidator(0.001)],
            ),
        ),
    ]
