"""Limits of admission: rates of keys and tenants, tokens and bytes of queues, the wait that a tier bears."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("inference", "0008_say_what_estimates_start_with"),
    ]

    operations = [
        migrations.AddField(
            model_name="apikey",
            name="requests_per_minute",
            field=models.PositiveIntegerField(
                blank=True, help_text="Most requests in any minute; empty for no bound.", null=True
            ),
        ),
        migrations.AddField(
            model_name="apikey",
            name="requests_per_second",
            field=models.PositiveIntegerField(
                blank=True, help_text="Most requests in any second; empty for no bound.", null=True
            ),
        ),
        migrations.AddField(
            model_name="apikey",
            name="tokens_per_minute",
            field=models.PositiveBigIntegerField(
                blank=True,
                help_text="Most tokens in any minute: prompts and expected output, put right by what was used; empty for no bound.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="job",
            name="request_bytes",
            field=models.PositiveIntegerField(
                db_default=0, default=0, help_text="Size of the body for the engine."
            ),
        ),
        migrations.AddField(
            model_name="queuelimit",
            name="max_bytes",
            field=models.PositiveBigIntegerField(
                blank=True,
                help_text="Most bytes of requests that may wait; empty for the tier's default.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="queuelimit",
            name="max_tokens",
            field=models.PositiveBigIntegerField(
                blank=True,
                help_text="Most tokens, of prompts and expected output, that may wait; empty for the tier's default.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="servedmodel",
            name="emergency_watermark",
            field=models.FloatField(
                default=0.9,
                help_text="Share of those bytes from which the least urgent tier is refused; the others one by one above it, the most urgent when all is taken.",
                validators=[
                    django.core.validators.MinValueValidator(0.01),
                    django.core.validators.MaxValueValidator(1),
                ],
            ),
        ),
        migrations.AddField(
            model_name="servedmodel",
            name="engine_start_seconds",
            field=models.FloatField(
                default=120,
                help_text="How long an engine takes to start: while none is ready, jobs may wait so much longer.",
                validators=[django.core.validators.MinValueValidator(0)],
            ),
        ),
        migrations.AddField(
            model_name="servedmodel",
            name="max_queued_bytes",
            field=models.PositiveBigIntegerField(
                blank=True,
                help_text="Bytes of requests that may wait in all its queues; empty: twice what its engines can hold.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="servedmodel",
            name="scales_from_zero",
            field=models.BooleanField(
                default=True, help_text="Jobs are taken while no worker of the model lives; if not, they get 503."
            ),
        ),
        migrations.AddField(
            model_name="tenant",
            name="max_queued_jobs",
            field=models.PositiveIntegerField(
                blank=True, help_text="Most of its jobs that may wait at once; empty for no bound.", null=True
            ),
        ),
        migrations.AddField(
            model_name="tenant",
            name="max_unfinished_jobs",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Most of its jobs that may wait or run at once; empty for no bound.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="tenant",
            name="requests_per_minute",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Most requests in any minute, over all its keys; empty for no bound.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="tenant",
            name="tokens_per_minute",
            field=models.PositiveBigIntegerField(
                blank=True,
                help_text="Most tokens in any minute, over all its keys: prompts and expected output, put right by what was used; empty for no bound.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="tier",
            name="max_queued_bytes",
            field=models.PositiveBigIntegerField(
                blank=True,
                help_text="Most bytes of requests that may wait in each of its queues, likewise; empty for no bound.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="tier",
            name="max_queued_jobs",
            field=models.PositiveIntegerField(
                default=10000,
                help_text="Most jobs that may wait in each of its queues, unless the queue has a cap of its own.",
            ),
        ),
        migrations.AddField(
            model_name="tier",
            name="max_queued_tokens",
            field=models.PositiveBigIntegerField(
                blank=True,
                help_text="Most tokens, of prompts and expected output, that may wait in each of its queues, likewise; empty for no bound.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="tier",
            name="max_wait_seconds",
            field=models.FloatField(
                blank=True,
                help_text="A job that would wait longer than this for its start gets 429; empty for no bound. A queue with a cap of its own goes by that instead.",
                null=True,
                validators=[django.core.validators.MinValueValidator(0.001)],
            ),
        ),
        migrations.AlterField(
            model_name="queuelimit",
            name="max_jobs",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Most jobs that may wait; others get 429. 0 closes it; empty for the tier's default.",
                null=True,
            ),
        ),
    ]
