"""Write KV and CPU as the field writes them. Changes no table."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("inference", "0015_bound_limits")]

    operations = [
        migrations.AlterField(
            model_name="servedmodel",
            name="cpu_kv_cache_gib",
            field=models.FloatField(
                default=1.0,
                help_text="CPU engine only. Needs an engine restart.",
                validators=[
                    django.core.validators.MinValueValidator(0.001),
                    django.core.validators.MaxValueValidator(1000000000),
                ],
                verbose_name="CPU KV cache GiB",
            ),
        ),
        migrations.AlterField(
            model_name="servedmodel",
            name="kv_margin_tokens",
            field=models.PositiveIntegerField(
                default=16,
                help_text="KV room kept free per job.",
                verbose_name="KV margin tokens",
            ),
        ),
    ]
