"""The registry of workers."""

from typing import ClassVar

from django.db import models
from django.utils import timezone

from inference.models.choices import choices_of
from inference.models.served import ServedModel
from inference.states import EngineKind, WorkerState


class Worker(models.Model):
    """A worker process as it last reported itself; the registry."""

    name = models.CharField(max_length=128, primary_key=True)
    model = models.ForeignKey(ServedModel, on_delete=models.CASCADE, related_name="workers")
    engine = models.CharField(max_length=16, choices=choices_of(EngineKind))
    device = models.CharField(max_length=64)
    serve = models.JSONField(default=list, help_text="Queue patterns it serves.")
    host = models.CharField(max_length=255)
    pid = models.PositiveIntegerField()
    state = models.CharField(max_length=12, choices=choices_of(WorkerState), default=WorkerState.STARTING)
    state_detail = models.CharField(max_length=255, blank=True, default="")
    slots = models.PositiveIntegerField(default=0)
    in_flight = models.PositiveIntegerField(default=0)
    kv_capacity_tokens = models.PositiveIntegerField(default=0)
    kv_used_tokens = models.PositiveIntegerField(default=0)
    started_at = models.DateTimeField(default=timezone.now)
    ready_at = models.DateTimeField(null=True, blank=True, help_text="Since when it is ready; empty if it is not.")
    heartbeat_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name
