"""Have help texts say what settings do. Changes no table."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("inference", "0018_label_warm_up")]

    operations = [
        migrations.AlterField(
            model_name="job",
            name="hold_ends_at",
            field=models.DateTimeField(
                blank=True,
                help_text="Until when a full queue holds this call: not started by then, it expires. Empty once started.",
                null=True,
            ),
        ),
        migrations.AlterField(
            model_name="queuelimit",
            name="is_draining",
            field=models.BooleanField(
                default=False,
                help_text="Take no more jobs (503); those that wait are worked off.",
                verbose_name="draining",
            ),
        ),
        migrations.AlterField(
            model_name="queuelimit",
            name="is_paused",
            field=models.BooleanField(
                default=False, help_text="Have nothing claimed; jobs are still taken.", verbose_name="paused"
            ),
        ),
        migrations.AlterField(
            model_name="queuelimit",
            name="max_jobs",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Most jobs that may wait; what becomes of more, the tier says (when full). 0: all get 429; empty for the tier's default.",
                null=True,
            ),
        ),
        migrations.AlterField(
            model_name="servedmodel",
            name="cpu_kv_cache_gib",
            field=models.FloatField(
                default=1.0,
                help_text="Room for the KV cache, on CPUs only. Needs an engine restart.",
                validators=[
                    django.core.validators.MinValueValidator(0.001),
                    django.core.validators.MaxValueValidator(1000000000),
                ],
                verbose_name="CPU KV cache GiB",
            ),
        ),
        migrations.AlterField(
            model_name="servedmodel",
            name="decode_tokens_per_second",
            field=models.FloatField(
                default=25,
                help_text="How fast one sequence is written, likewise.",
                validators=[
                    django.core.validators.MinValueValidator(0.001),
                    django.core.validators.MaxValueValidator(1000000000),
                ],
            ),
        ),
        migrations.AlterField(
            model_name="servedmodel",
            name="dtype",
            field=models.CharField(
                default="auto",
                help_text="Format of the weights, as bfloat16; auto: the model's own. Needs an engine restart.",
                max_length=16,
            ),
        ),
        migrations.AlterField(
            model_name="servedmodel",
            name="is_default",
            field=models.BooleanField(
                default=False,
                help_text="Chosen by the dashboard at first, and served by a worker that names no model.",
            ),
        ),
        migrations.AlterField(
            model_name="servedmodel",
            name="kv_margin_tokens",
            field=models.PositiveIntegerField(
                default=16,
                help_text="Tokens of the KV cache kept for each job beyond what it is expected to need.",
                verbose_name="KV margin tokens",
            ),
        ),
        migrations.AlterField(
            model_name="servedmodel",
            name="max_model_len",
            field=models.PositiveIntegerField(
                default=8192,
                help_text="Most tokens of a prompt and its answer together. Needs an engine restart.",
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(1000000000),
                ],
            ),
        ),
        migrations.AlterField(
            model_name="servedmodel",
            name="max_num_seqs",
            field=models.PositiveIntegerField(
                default=32,
                help_text="Most sequences that an engine runs at once: a worker's slots. Needs an engine restart.",
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(1000000000),
                ],
            ),
        ),
        migrations.AlterField(
            model_name="servedmodel",
            name="prefill_tokens_per_second",
            field=models.FloatField(
                default=4000,
                help_text="How fast prompts are read, for estimates until enough calls were measured.",
                validators=[
                    django.core.validators.MinValueValidator(0.001),
                    django.core.validators.MaxValueValidator(1000000000),
                ],
            ),
        ),
        migrations.AlterField(
            model_name="servedmodel",
            name="reserve_share",
            field=models.FloatField(
                default=0.05,
                help_text="Share of each worker's slots and KV tokens that is kept for tiers that use the reserve; at least one slot from 8 slots up, none below.",
                validators=[
                    django.core.validators.MinValueValidator(0),
                    django.core.validators.MaxValueValidator(0.5),
                ],
            ),
        ),
        migrations.AlterField(
            model_name="servedmodel",
            name="scales_from_zero",
            field=models.BooleanField(
                default=True, help_text="Take jobs while no worker of the model lives; unticked, they get 503."
            ),
        ),
        migrations.AlterField(
            model_name="servedmodel",
            name="tensor_parallel_size",
            field=models.PositiveSmallIntegerField(
                default=1,
                help_text="GPUs that an engine is spread over; 1: as many as its worker's device names. Needs an engine restart.",
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(1024),
                ],
            ),
        ),
        migrations.AlterField(
            model_name="tenant",
            name="weight",
            field=models.FloatField(
                default=1,
                help_text="Share of service beside the other tenants that have work: twice the weight, twice the service.",
                validators=[
                    django.core.validators.MinValueValidator(0.001),
                    django.core.validators.MaxValueValidator(1000000000),
                ],
            ),
        ),
        migrations.AlterField(
            model_name="tier",
            name="engine_priority",
            field=models.SmallIntegerField(
                default=0,
                help_text="Priority in vLLM, lower first: whose sequences keep their room when the KV cache runs out. Who starts first, the weight says.",
            ),
        ),
        migrations.AlterField(
            model_name="tier",
            name="gather_seconds",
            field=models.FloatField(
                default=0,
                help_text="How long the oldest job may be kept waiting so; 0: not at all.",
                validators=[
                    django.core.validators.MinValueValidator(0),
                    django.core.validators.MaxValueValidator(31622400),
                ],
            ),
        ),
        migrations.AlterField(
            model_name="tier",
            name="max_share",
            field=models.FloatField(
                default=1,
                help_text="Most of a worker's slots and KV tokens that its jobs may hold, as 0.5, while tiers with a share of 1 have work or had some in the last 10 s; at least one slot. 1: no such bound.",
                validators=[
                    django.core.validators.MinValueValidator(0.01),
                    django.core.validators.MaxValueValidator(1),
                ],
            ),
        ),
        migrations.AlterField(
            model_name="tier",
            name="max_wait_seconds",
            field=models.FloatField(
                blank=True,
                help_text="A queue is full when a new job would wait longer than this for its start; empty for no bound. A queue with a cap in jobs of its own goes by that instead.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(0.001),
                    django.core.validators.MaxValueValidator(31622400),
                ],
            ),
        ),
        migrations.AlterField(
            model_name="tier",
            name="start_deadline_seconds",
            field=models.FloatField(
                default=300,
                help_text="A job that has not started after so long expires. The clock stands still while no worker of its model is ready, or its queue is paused.",
                validators=[
                    django.core.validators.MinValueValidator(0.1),
                    django.core.validators.MaxValueValidator(31622400),
                ],
            ),
        ),
        migrations.AlterField(
            model_name="tier",
            name="weight",
            field=models.FloatField(
                default=100,
                help_text="Share of service beside the other tiers that have work: twice the weight, twice the service.",
                validators=[
                    django.core.validators.MinValueValidator(0.001),
                    django.core.validators.MaxValueValidator(1000000000),
                ],
            ),
        ),
        migrations.AlterField(
            model_name="workerlimit",
            name="is_draining",
            field=models.BooleanField(
                default=False, help_text="Have it finish what it runs and claim no more.", verbose_name="draining"
            ),
        ),
        migrations.AlterField(
            model_name="workerlimit",
            name="is_paused",
            field=models.BooleanField(
                default=False, help_text="Have it claim nothing; its engine stays loaded.", verbose_name="paused"
            ),
        ),
    ]
