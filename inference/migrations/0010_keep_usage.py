"""Usage by day, tenant, key, model and tier, with what it cost; prices and monthly budgets."""

import django.core.validators
import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("inference", "0009_add_admission_limits"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="cost_nano",
            field=models.PositiveBigIntegerField(
                db_default=0,
                default=0,
                editable=False,
                help_text="By the prices of the time, in billionths of the currency.",
            ),
        ),
        migrations.AddField(
            model_name="job",
            name="engine_ms",
            field=models.PositiveBigIntegerField(
                db_default=0, default=0, editable=False, help_text="Time in the engine."
            ),
        ),
        migrations.AddField(
            model_name="job",
            name="used_output_tokens",
            field=models.PositiveBigIntegerField(db_default=0, default=0, editable=False),
        ),
        migrations.AddField(
            model_name="job",
            name="used_prompt_tokens",
            field=models.PositiveBigIntegerField(db_default=0, default=0, editable=False),
        ),
        migrations.CreateModel(
            name="Usage",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                ("day", models.DateField()),
                ("tenant", models.CharField(max_length=64)),
                ("api_key", models.CharField(help_text="Empty: users of the dashboard.", max_length=150)),
                ("model", models.CharField(max_length=96)),
                ("tier", models.CharField(max_length=32)),
                (
                    "jobs",
                    models.PositiveBigIntegerField(
                        help_text="Runs that ended; a job that was retried by hand counts again."
                    ),
                ),
                ("prompt_tokens", models.PositiveBigIntegerField()),
                ("output_tokens", models.PositiveBigIntegerField()),
                ("engine_ms", models.PositiveBigIntegerField(help_text="Time in the engine, in milliseconds.")),
                (
                    "cost_nano",
                    models.PositiveBigIntegerField(help_text="By the prices of the time, in billionths."),
                ),
            ],
            options={
                "verbose_name_plural": "usage",
                "ordering": ["-day", "tenant", "api_key", "model", "tier"],
                "indexes": [models.Index(fields=["day"], name="usage_by_day")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "day", "api_key", "model", "tier"), name="usage_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Budget",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                (
                    "monthly",
                    models.DecimalField(
                        decimal_places=2,
                        help_text="In the currency of the price list. A job whose expected cost would pass it gets 429.",
                        max_digits=14,
                        validators=[django.core.validators.MinValueValidator(0)],
                        verbose_name="amount per month",
                    ),
                ),
                (
                    "api_key",
                    models.ForeignKey(
                        blank=True,
                        help_text="Empty: the whole tenant. A key's budget holds beside its tenant's.",
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="budgets",
                        to="inference.apikey",
                        verbose_name="API key",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="budgets", to="inference.tenant"
                    ),
                ),
            ],
            options={
                "ordering": ["tenant", models.OrderBy(models.F("api_key"), nulls_first=True)],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("api_key__isnull", True)),
                        fields=("tenant",),
                        name="one_budget_of_a_tenant",
                    ),
                    models.UniqueConstraint(fields=("api_key",), name="one_budget_of_a_key"),
                    models.CheckConstraint(condition=models.Q(("monthly__gte", 0)), name="budget_not_negative"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Price",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                (
                    "prompt_per_million",
                    models.DecimalField(
                        decimal_places=3,
                        default=0,
                        max_digits=12,
                        validators=[django.core.validators.MinValueValidator(0)],
                        verbose_name="per million prompt tokens",
                    ),
                ),
                (
                    "output_per_million",
                    models.DecimalField(
                        decimal_places=3,
                        default=0,
                        max_digits=12,
                        validators=[django.core.validators.MinValueValidator(0)],
                        verbose_name="per million output tokens",
                    ),
                ),
                (
                    "per_engine_second",
                    models.DecimalField(
                        decimal_places=6,
                        default=0,
                        max_digits=12,
                        validators=[django.core.validators.MinValueValidator(0)],
                    ),
                ),
                (
                    "valid_from",
                    models.DateTimeField(
                        default=django.utils.timezone.now,
                        help_text="UTC. Not in the past: what was used has its price already.",
                    ),
                ),
                (
                    "model",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="prices",
                        to="inference.servedmodel",
                    ),
                ),
                (
                    "tier",
                    models.ForeignKey(
                        blank=True,
                        help_text="Empty: all tiers that have no price of their own.",
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="inference.tier",
                    ),
                ),
            ],
            options={
                "ordering": ["model", models.OrderBy(models.F("tier"), nulls_first=True), "-valid_from"],
                "constraints": [
                    models.UniqueConstraint(fields=("model", "tier", "valid_from"), name="price_of_tier_once"),
                    models.UniqueConstraint(
                        condition=models.Q(("tier__isnull", True)),
                        fields=("model", "valid_from"),
                        name="price_of_model_once",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("output_per_million__gte", 0),
                            ("per_engine_second__gte", 0),
                            ("prompt_per_million__gte", 0),
                        ),
                        name="price_not_negative",
                    ),
                ],
            },
        ),
    ]
