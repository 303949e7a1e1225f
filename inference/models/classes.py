"""What a job is sorted by: its tier, and its length."""

from typing import ClassVar

from django.db import models

from inference.models.choices import choices_of
from inference.models.validators import LARGEST, between, list_of_strings, seconds, slug
from inference.states import OnFull


class Tier(models.Model):
    """A class of service: who goes first, and how long a job may wait."""

    name = models.CharField(max_length=32, primary_key=True, validators=[slug])
    position = models.PositiveSmallIntegerField(default=0, help_text="Order on pages.")
    weight = models.FloatField(
        default=100,
        validators=between(0.001, LARGEST),
        help_text="Share of service beside the other tiers that have work: twice the weight, twice the service.",
    )
    engine_priority = models.SmallIntegerField(
        default=0,
        help_text="Priority in vLLM, lower first: whose sequences keep their room when the KV cache runs out. "
        "Who starts first, the weight says.",
    )
    target_wait_seconds = models.FloatField(
        null=True,
        blank=True,
        validators=seconds(0),
        help_text="A job that starts within this starts in time; empty: one that starts before its deadline does.",
    )
    objective_share = models.FloatField(
        "objective",
        null=True,
        blank=True,
        validators=between(0.01, 1),
        help_text="Share of the jobs that should start in time, as 0.95; shown as kept or missed, and decides "
        "nothing; empty for none.",
    )
    start_deadline_seconds = models.FloatField(
        default=300,
        validators=seconds(0.1),
        help_text="A job that has not started after so long expires. The clock stands still while no worker of "
        "its model is ready, or its queue is paused.",
    )
    sync_start_deadline_seconds = models.FloatField(
        default=300,
        validators=seconds(0.1),
        help_text="The same for a synchronous call, whose client waits.",
    )
    run_timeout_seconds = models.FloatField(
        default=600, validators=seconds(0.1), help_text="A job that runs longer is failed."
    )
    max_wait_seconds = models.FloatField(
        null=True,
        blank=True,
        validators=seconds(0.001),
        help_text="A queue is full when a new job would wait longer than this for its start; empty for no bound. "
        "A queue with a cap in jobs of its own goes by that instead.",
    )
    max_queued_jobs = models.PositiveIntegerField(
        default=10_000,
        help_text="Most jobs that may wait in each of its queues, unless the queue has a cap of its own.",
    )
    max_queued_tokens = models.PositiveBigIntegerField(
        null=True,
        blank=True,
        help_text="Most tokens, of prompts and expected output, that may wait in each of its queues, likewise; "
        "empty for no bound.",
    )
    max_queued_bytes = models.PositiveBigIntegerField(
        null=True,
        blank=True,
        help_text="Most bytes of requests that may wait in each of its queues, likewise; empty for no bound.",
    )
    on_full = models.CharField(
        "when full",
        max_length=8,
        choices=choices_of(OnFull),
        default=OnFull.REJECT,
        help_text="What its full queues do with more. reject: 429 at once. hold: calls whose client waits for the "
        "answer are taken all the same, on hold: they start in time, or get 429; all others get 429 at once. "
        "spill: these others are kept in the database until the queue has room; calls are held.",
    )
    hold_seconds = models.FloatField(
        default=20,
        validators=seconds(0.1),
        help_text="A call on hold that has not started after so long gets 429.",
    )
    max_held_jobs = models.PositiveIntegerField(
        default=2_000,
        help_text="Most calls on hold at once in each of its queues, beyond the caps above; more get 429 at once.",
    )
    max_attempts = models.PositiveSmallIntegerField(
        default=3,
        validators=between(1, 100),
        help_text="A job whose worker died this often is failed; it can be retried by hand.",
    )
    uses_reserve = models.BooleanField(
        default=False, help_text="May take the slots and KV tokens that each worker reserves (see the model)."
    )
    max_share = models.FloatField(
        default=1,
        validators=between(0.01, 1),
        help_text="Most of a worker's slots and KV tokens that its jobs may hold, as 0.5, while tiers with a "
        "share of 1 have work or had some in the last 10 s; at least one slot. 1: no such bound.",
    )
    max_in_flight = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Most jobs that may run at once, per model, over all workers; empty for no bound.",
    )
    gather_jobs = models.PositiveIntegerField(
        default=0,
        help_text="A worker with other work waits until this many jobs wait here, or for the gather time; "
        "0: it never waits.",
    )
    gather_seconds = models.FloatField(
        default=0,
        validators=seconds(0),
        help_text="How long the oldest job may be kept waiting so; 0: not at all.",
    )
    service_tiers = models.JSONField(
        default=list,
        blank=True,
        validators=[list_of_strings],
        help_text='OpenAI service_tier values that pick this tier, as ["flex"]; each value picks one tier.',
    )

    class Meta:
        ordering: ClassVar = ["position", "name"]

    def __str__(self) -> str:
        return self.name


class LengthClass(models.Model):
    """A class of prompt lengths; each has queues of its own."""

    name = models.CharField(max_length=32, primary_key=True, validators=[slug])
    max_prompt_tokens = models.PositiveIntegerField(
        null=True, blank=True, unique=True, help_text="Longest prompt, inclusive; empty for no bound."
    )

    max_in_flight = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Most jobs that may run at once, per model, over all workers; empty for no bound.",
    )

    class Meta:
        ordering: ClassVar = [models.F("max_prompt_tokens").asc(nulls_last=True)]
        verbose_name_plural = "length classes"

    def __str__(self) -> str:
        return self.name
