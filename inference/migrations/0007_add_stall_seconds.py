"""How long an engine may show no progress before it counts as hung."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("inference", "0006_add_halts"),
    ]

    operations = [
        migrations.AddField(
            model_name="servedmodel",
            name="stall_seconds",
            field=models.FloatField(
                default=60,
                help_text="An engine without progress for so long, and for four times what its largest step should "
                "take, while requests run, is restarted; not an external one. Needs an engine restart.",
                validators=[django.core.validators.MinValueValidator(1)],
            ),
        ),
    ]
