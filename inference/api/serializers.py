"""What the native API reads and writes as JSON."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request

from inference import fields, selectors
from inference.models import Job, JobEvent, ServedModel, Tier
from inference.rows import WorkerRow
from inference.states import Endpoint, JobStatus
from inference.waiting import Reason

MAX_PAGE: Final = 500
"""Most jobs on one page of a list."""


@extend_schema_field(OpenApiTypes.OBJECT)
class ObjectField(serializers.Field[Any, Any, Any, Any]):
    """A JSON object, taken as it is: what is in it is checked by `inference.validation`."""

    def to_internal_value(self, data: object) -> Mapping[str, Any]:
        """Refuse what is not an object."""
        if not isinstance(data, dict):
            raise serializers.ValidationError(f"must be a JSON object, got {fields.kind(data)}")
        return data


def _refuse_unknown(data: Any, known: Iterable[str], *, what: str) -> None:
    unknown = sorted(set(data) - set(known)) if isinstance(data, dict) else []
    if unknown:
        message = f"unknown {what}; the {what}s are {', '.join(known)}"
        raise serializers.ValidationError({unknown[0][:64]: [message]})


class SubmissionSerializer(serializers.Serializer[Any]):
    """One job to be."""

    endpoint = serializers.ChoiceField(choices=[e.value for e in Endpoint], default=Endpoint.CHAT.value)
    tier = serializers.CharField(required=False, allow_null=True, default=None, max_length=32)
    body = ObjectField(help_text="The request body as the endpoint below /v1/ takes it.")

    def to_internal_value(self, data: Any) -> Any:
        """Refuse fields that do not exist: a misspelt tier must not be the default one."""
        _refuse_unknown(data, self.fields, what="field")
        return super().to_internal_value(data)


class BulkSerializer(serializers.Serializer[Any]):
    """Up to 1,000 jobs, all of them accepted or none."""

    jobs = SubmissionSerializer(many=True, allow_empty=False)


class JobErrorSerializer(serializers.Serializer[Any]):
    """Why a job has no result."""

    code = serializers.CharField()
    message = serializers.CharField()


class JobSerializer(serializers.ModelSerializer[Job]):
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
        path = reverse("job-events", args=[job.pk])
        request = self.context.get("request")
        return request.build_absolute_uri(path) if request else path


class JobEventSerializer(serializers.ModelSerializer[JobEvent]):
    """One step of a job's life."""

    class Meta:
        model = JobEvent
        fields = ("at", "kind", "attempt", "claim_id", "worker", "detail")
        read_only_fields = fields


class JobDetailSerializer(JobSerializer):
    """A job with its history and its result, the engine's answer."""

    history = JobEventSerializer(source="events.all", many=True)
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
        allow_null=True, help_text="At the rate at which jobs ended lately; null where nobody can tell."
    )


class JobLookSerializer(JobDetailSerializer):
    """The same, and while it is queued why it waits."""

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


class JobFilterSerializer(serializers.Serializer[Any]):
    """What a list of jobs can be narrowed by."""

    status = serializers.ChoiceField(choices=[s.value for s in JobStatus], required=False)
    tier = serializers.CharField(required=False, source="tier_id")
    model = serializers.CharField(required=False, source="model_id")

    def validate_tier(self, name: str) -> str:
        """Refuse a tier that does not exist: it would look like one without jobs."""
        return _existing(Tier.objects.all(), name)

    def validate_model(self, name: str) -> str:
        """Refuse a model that was never served."""
        return _existing(ServedModel.objects.all(), name)


class JobListSerializer(JobFilterSerializer):
    """Every parameter of a list of jobs."""

    limit = serializers.IntegerField(required=False, min_value=1, max_value=MAX_PAGE)
    cursor = serializers.CharField(required=False)

    def to_internal_value(self, data: Any) -> Any:
        """Refuse parameters that do not exist: a misspelt filter must not be none."""
        _refuse_unknown(data, self.fields, what="parameter")
        return super().to_internal_value(data)

    @property
    def filters(self) -> dict[str, Any]:
        """What was asked for, as the model's lookups."""
        return {name: value for name, value in self.validated_data.items() if name not in {"limit", "cursor"}}


def _existing(rows: QuerySet[Any], name: str) -> str:
    names = sorted(rows.values_list("pk", flat=True))
    if name not in names:
        raise serializers.ValidationError(f"must be one of {', '.join(names)}, not {fields.show(name)}")
    return name


class QueueSerializer(serializers.Serializer[Any]):
    """One queue now."""

    queue = serializers.CharField()
    model = serializers.CharField()
    tier = serializers.CharField()
    length = serializers.CharField()
    jobs = serializers.IntegerField(help_text="Admitted, not started.")
    tokens = serializers.IntegerField(help_text="Prompt and expected output tokens of those jobs.")
    backlog_seconds = serializers.FloatField(help_text="Age of the oldest of them; 0 for a paused queue.")
    leases = serializers.IntegerField(help_text="Jobs held by workers.")
    cap = serializers.IntegerField(help_text="Most jobs that may wait.")
    is_paused = serializers.BooleanField(help_text="Nothing is claimed.")
    is_draining = serializers.BooleanField(help_text="No more jobs are taken.")
    waiting_reason = serializers.CharField(help_text="What holds its first job now; empty if none waits.")
    waiting_detail = serializers.CharField(help_text="The same in words.")
    expected_wait_seconds = serializers.FloatField(
        allow_null=True,
        help_text="Of a job that came now, behind all of its tier; null if nobody can tell.",
    )


class HaltSerializer(serializers.Serializer[Any]):
    """A queue or a worker after a pause, a drain or a resume."""

    name = serializers.CharField(source="pk")
    is_paused = serializers.BooleanField()
    is_draining = serializers.BooleanField()
    halted_by = serializers.CharField(help_text="Who did the last of these.")
    halted_at = serializers.DateTimeField(allow_null=True)


class RatesSerializer(serializers.Serializer[Any]):
    """How fast a model's engines are for one sequence under the load there is, in tokens per second."""

    prefill_tokens_per_second = serializers.FloatField(help_text="What estimates go by.")
    decode_tokens_per_second = serializers.FloatField(help_text="Likewise.")
    measured_calls = serializers.IntegerField(help_text="From about so many calls; 0: as configured, so far.")
    configured_prefill_tokens_per_second = serializers.FloatField()
    configured_decode_tokens_per_second = serializers.FloatField()


class WorkerSerializer(serializers.Serializer[Any]):
    """One worker as it last reported itself."""

    name = serializers.CharField()
    model = serializers.CharField()
    engine = serializers.CharField()
    device = serializers.CharField()
    serve = serializers.ListField(child=serializers.CharField(), help_text="Patterns of the queues it serves.")
    state = serializers.CharField()
    state_detail = serializers.CharField()
    slots = serializers.IntegerField()
    in_flight = serializers.IntegerField()
    kv_capacity_tokens = serializers.IntegerField()
    kv_used_tokens = serializers.IntegerField()
    ready_at = serializers.DateTimeField(allow_null=True)
    heartbeat_age_seconds = serializers.SerializerMethodField()
    model_rates = serializers.SerializerMethodField()
    stale = serializers.BooleanField(help_text="Silent for too long: what it says of itself is old.")

    @extend_schema_field(RatesSerializer(allow_null=True))
    def get_model_rates(self, worker: WorkerRow) -> Any:
        """Return the rates of the worker's model, over all its workers; None while Redis is away."""
        found = self.context["rates"].get(worker.model)
        return RatesSerializer(found).data if found else None

    def get_heartbeat_age_seconds(self, worker: WorkerRow) -> float:
        """Return how long ago the worker reported."""
        return round(worker.silent_seconds, 3)


def job(row: Job, request: HttpRequest | Request) -> dict[str, Any]:
    """Return a job as JSON values, its result included."""
    return dict(JobDetailSerializer(row, context={"request": request}).data)


def look(row: Job, request: HttpRequest | Request, *, names_operators: bool) -> dict[str, Any]:
    """Return the same and, if it is queued, why it waits: two more trips to Redis."""
    waiting = selectors.waiting_of([row], names_operators=names_operators)
    context = {"request": request, "waiting": waiting}
    return dict(JobLookSerializer(row, context=context).data)
