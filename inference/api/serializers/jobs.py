"""Jobs, as the native API shows them."""

import functools
import threading
import uuid
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final, TypeVar, cast

import orjson
from django.db.models import Model
from django.http import HttpRequest
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request

from inference import selectors
from inference.models import Job, JobEvent
from inference.waiting import Reason

Row = TypeVar("Row", bound=Model)

_NO_JOB: Final = uuid.UUID(int=0)


class _RowSerializer(serializers.ModelSerializer[Row]):
    """Gives what a row holds as it is: ids and moments are the renderer's to write.

    DRF looks for every value anew and turns it into text, which is most of what an answer costs.
    """

    def to_representation(self, instance: Row) -> dict[str, Any]:
        """Return the fields by name."""
        return {name: read(instance) for name, read in self._readers}

    @functools.cached_property
    def _readers(self) -> tuple[tuple[str, Callable[[Row], Any]], ...]:
        return tuple((name, _reader(field)) for name, field in self.fields.items())


def _reader(field: serializers.Field[Any, Any, Any, Any]) -> Callable[[Any], Any]:
    if isinstance(field, serializers.SerializerMethodField):
        return field.to_representation
    read = attrgetter(str(field.source))
    if isinstance(field, serializers.BaseSerializer):
        return lambda row: field.to_representation(read(row))
    return read


class JobErrorSerializer(serializers.Serializer[Any]):
    """Why a job has no result."""

    code = serializers.CharField()
    message = serializers.CharField()


class JobSerializer(_RowSerializer[Job]):
    """A job without its result."""

    model = serializers.CharField(source="model_id")
    tier = serializers.CharField(source="tier_id")
    length = serializers.CharField(source="length_id")
    queue = serializers.CharField()
    queue_time_seconds = serializers.FloatField(allow_null=True)
    error = serializers.SerializerMethodField()
    events = serializers.SerializerMethodField()

    class Meta:
        model = Job
        fields = (
            "id",
            "status",
            "endpoint",
            "model",
            "tier",
            "length",
            "queue",
            "streamed",
            "attempts",
            "prompt_tokens",
            "expected_tokens",
            "output_tokens",
            "estimate_seconds",
            "finish_reason",
            "created_at",
            "start_deadline_at",
            "started_at",
            "first_token_at",
            "finished_at",
            "queue_time_seconds",
            "error",
            "events",
        )
        read_only_fields = fields

    @extend_schema_field(JobErrorSerializer(allow_null=True))
    def get_error(self, job: Job) -> dict[str, str] | None:
        """Return why the job failed; None if it did not."""
        return {"code": job.error_code, "message": job.error_message} if job.error_code else None

    @extend_schema_field(OpenApiTypes.URI)
    def get_events(self, job: Job) -> str:
        """Return the address of the job's event stream."""
        path = str(job.pk).join(_around_id())
        request = self.context.get("request")
        return request.build_absolute_uri(path) if request else path


@functools.cache
def _around_id() -> tuple[str, str]:
    """Return what stands before and after a job's id in the address of its events."""
    before, _, after = reverse("job-events", args=[_NO_JOB]).partition(str(_NO_JOB))
    return before, after


class JobEventSerializer(_RowSerializer[JobEvent]):
    """One step of a job's life."""

    class Meta:
        model = JobEvent
        fields = ("at", "kind", "attempt", "claim_id", "worker", "detail")
        read_only_fields = fields


class JobDetailSerializer(JobSerializer):
    """A job with its history and its result, the engine's answer."""

    history = JobEventSerializer(many=True)
    result = serializers.SerializerMethodField()

    class Meta:
        model = Job
        fields = (*JobSerializer.Meta.fields, "history", "result")
        read_only_fields = fields

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_result(self, job: Job) -> orjson.Fragment | None:
        """Return the engine's answer as the JSON that it is; None while there is none."""
        return orjson.Fragment(job.result) if job.result else None


class JobWaitingSerializer(serializers.Serializer[Any]):
    """What holds a queued job now."""

    reason = serializers.ChoiceField(choices=[reason.value for reason in Reason])
    detail = serializers.CharField(help_text="The same in words, with numbers.")
    position = serializers.IntegerField(
        allow_null=True,
        help_text="1 is next. Exact among your jobs, estimated across tenants and tiers; null if in no queue.",
    )
    expected_start = serializers.DateTimeField(
        allow_null=True, help_text="As far as ends and starts of late tell; null where nobody can tell."
    )


class JobLookSerializer(JobDetailSerializer):
    """The same, and while it is queued or spilled why it waits."""

    waiting = serializers.SerializerMethodField()

    class Meta:
        model = Job
        fields = (*JobDetailSerializer.Meta.fields, "waiting")
        read_only_fields = fields

    @extend_schema_field(JobWaitingSerializer(allow_null=True))
    def get_waiting(self, job: Job) -> Any:
        """Return what holds the job; None if it is not queued, or Redis is away."""
        held = self.context["waiting"].get(job.pk)
        return JobWaitingSerializer(held).data if held else None


class _Made(threading.local):
    """A serializer of each kind for each thread: making one takes longer than all that it does with a job."""

    def __init__(self) -> None:
        self.detail = JobDetailSerializer()
        self.look = JobLookSerializer()


_made = _Made()


def job(row: Job, request: HttpRequest | Request) -> dict[str, Any]:
    """Return a job as JSON values, its result included."""
    return _shown(_made.detail, row, {"request": request})


def look(row: Job, request: HttpRequest | Request, *, names_operators: bool) -> dict[str, Any]:
    """Return the same and, if it is queued, why it waits: two more trips to Redis."""
    waiting = selectors.waiting_of([row], names_operators=names_operators)
    return _shown(_made.look, row, {"request": request, "waiting": waiting})


def _shown(serializer: JobDetailSerializer, row: Job, context: Mapping[str, Any]) -> dict[str, Any]:
    own = cast(dict[str, Any], serializer.context)
    own.update(context)
    try:
        return serializer.to_representation(row)
    finally:
        own.clear()
