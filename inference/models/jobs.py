"""Jobs and their history. `lifecycle` is the one writer of a job's status."""

import functools
from typing import ClassVar

import uuid_utils.compat
from django.db import models
from django.utils import timezone

from inference.models.choices import choices_of
from inference.models.classes import LengthClass, Tier
from inference.models.served import ServedModel
from inference.models.tenants import ApiKey, Tenant
from inference.states import RETRYABLE, TERMINAL, Endpoint, JobEventKind, JobStatus


class Job(models.Model):
    """One accepted inference request, for ever; the truth that the queue in Redis is an index of."""

    id = models.UUIDField(primary_key=True, default=uuid_utils.compat.uuid7, editable=False)
    # No index on the foreign keys: each would cost every insert, and only an admin's delete would read it.
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="jobs", db_index=False)
    api_key = models.ForeignKey(
        ApiKey, on_delete=models.SET_NULL, null=True, blank=True, related_name="+", db_index=False
    )
    model = models.ForeignKey(ServedModel, on_delete=models.PROTECT, related_name="jobs", db_index=False)
    tier = models.ForeignKey(Tier, on_delete=models.PROTECT, related_name="+", db_index=False)
    length = models.ForeignKey(LengthClass, on_delete=models.PROTECT, related_name="+", db_index=False)
    endpoint = models.CharField(max_length=32, choices=choices_of(Endpoint))
    streamed = models.BooleanField(default=False)

    prompt_tokens = models.PositiveIntegerField()
    expected_tokens = models.PositiveIntegerField(help_text="Output tokens reserved for in the KV cache.")
    request_bytes = models.PositiveIntegerField(
        default=0, db_default=0, help_text="Size of the body for the engine."
    )
    estimate_seconds = models.FloatField(help_text="Expected service time; what fairness charges.")

    status = models.CharField(max_length=12, choices=choices_of(JobStatus), default=JobStatus.QUEUED)
    claim_id = models.UUIDField(null=True, blank=True, help_text="The claim that holds a running job.")
    worker = models.CharField(max_length=128, blank=True, default="")
    attempts = models.PositiveSmallIntegerField(default=0)
    engine_crashes = models.PositiveSmallIntegerField(default=0)

    created_at = models.DateTimeField(default=timezone.now)
    queued_at = models.DateTimeField(
        default=timezone.now, help_text="Since when the start deadline's clock runs: created, or last given back."
    )
    start_deadline_at = models.DateTimeField()
    hold_ends_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="Until when a full queue holds this call: not started by then, it expires. Empty once started.",
    )
    started_at = models.DateTimeField(null=True, blank=True)
    first_token_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    output_tokens = models.PositiveIntegerField(null=True, blank=True)
    finish_reason = models.CharField(max_length=32, blank=True, default="")
    error_code = models.CharField(max_length=32, blank=True, default="")
    error_message = models.TextField(blank=True, default="")

    # What the runs used that ended it: several, if it was retried by hand. `lifecycle` adds the same to `Usage`.
    used_prompt_tokens = models.PositiveBigIntegerField(default=0, db_default=0, editable=False)
    used_output_tokens = models.PositiveBigIntegerField(default=0, db_default=0, editable=False)
    engine_ms = models.PositiveBigIntegerField(
        default=0, db_default=0, editable=False, help_text="Time in the engine."
    )
    cost_nano = models.PositiveBigIntegerField(
        default=0,
        db_default=0,
        editable=False,
        help_text="By the prices of the time, in billionths of the currency.",
    )

    # Last, since SQLite walks through a long value to reach the columns behind it.
    request = models.TextField(help_text="The body for the engine, as JSON; empty if it is in the storage.")
    result = models.TextField(blank=True, default="", help_text="The engine's answer, as JSON.")

    class Meta:
        ordering: ClassVar = ["-id"]
        indexes: ClassVar = [
            # A client's list of its jobs, newest first.
            models.Index(fields=["tenant", "-id"], name="job_by_tenant"),
            # The reconciler walks over what waits and what runs; few rows whatever the history. Two indexes, since
            # SQLite uses a partial one only for the very condition that it has.
            models.Index(fields=["id"], name="job_queued", condition=models.Q(status=JobStatus.QUEUED)),
            models.Index(fields=["id"], name="job_running", condition=models.Q(status=JobStatus.RUNNING)),
            models.Index(fields=["id"], name="job_spilled_id", condition=models.Q(status=JobStatus.SPILLED)),
            # The feeder takes the oldest of each tenant in a queue.
            models.Index(
                fields=["model", "tier", "length", "tenant", "created_at"],
                name="job_spilled",
                condition=models.Q(status=JobStatus.SPILLED),
            ),
            # Expiry reads the few whose deadline has passed, however many wait.
            models.Index(
                fields=["start_deadline_at"],
                name="job_start_deadline",
                condition=models.Q(status=JobStatus.QUEUED),
            ),
            models.Index(
                fields=["model", "start_deadline_at"],
                name="job_spilled_deadline",
                condition=models.Q(status=JobStatus.SPILLED),
            ),
            # The same of those on hold.
            models.Index(fields=["hold_ends_at"], name="job_hold", condition=models.Q(hold_ends_at__isnull=False)),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                name="job_running_has_claim",
                condition=~models.Q(status=JobStatus.RUNNING) | models.Q(claim_id__isnull=False),
            ),
            models.CheckConstraint(
                name="job_status_known", condition=models.Q(status__in=[s.value for s in JobStatus])
            ),
            models.CheckConstraint(
                name="job_finished_has_time",
                condition=~models.Q(status__in=[s.value for s in sorted(TERMINAL)])
                | models.Q(finished_at__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)

    @functools.cached_property
    def history(self) -> "list[JobEvent]":
        """Its steps so far, as they are when they are first asked for."""
        return list(self.events.all())

    @property
    def queue(self) -> str:
        """Name of the job's queue."""
        return f"{self.model_id}.{self.tier_id}.{self.length_id}"

    @property
    def is_finished(self) -> bool:
        """Whether the job reached a terminal status."""
        return self.status in TERMINAL

    @property
    def is_retryable(self) -> bool:
        """Whether it ended in a way that a hand may queue it again after."""
        return self.status in RETRYABLE

    @property
    def queue_time_seconds(self) -> float | None:
        """Seconds between creation and the start of the last attempt; None before any."""
        return (self.started_at - self.created_at).total_seconds() if self.started_at else None


class JobEvent(models.Model):
    """One step of a job's history, written in the same transaction as the step."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField(default=timezone.now)
    kind = models.CharField(max_length=12, choices=choices_of(JobEventKind))
    claim_id = models.UUIDField(null=True, blank=True)
    worker = models.CharField(max_length=128, blank=True, default="")
    attempt = models.PositiveSmallIntegerField(default=0)
    detail = models.CharField(max_length=255, blank=True, default="", help_text="A reason, never a prompt.")

    class Meta:
        ordering: ClassVar = ["id"]

    def __str__(self) -> str:
        return f"{self.job_id} {self.kind}"
