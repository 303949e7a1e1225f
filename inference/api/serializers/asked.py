"""What clients ask the native API for: jobs to be, and lists."""

from collections.abc import Iterable
from typing import Any, Final

from django.db.models import QuerySet
from rest_framework import serializers

from inference import fields
from inference.api.serializers.told import NumberField, ObjectField, OneOfField, TextField
from inference.models import ServedModel, Tier
from inference.states import Endpoint, JobStatus

MAX_PAGE: Final = 500
"""Most jobs on one page of a list."""


def refuse_unknown(data: Any, known: Iterable[str]) -> None:
    """Raise ValidationError for what is no object, or has a field that nobody knows."""
    if not isinstance(data, dict):
        raise serializers.ValidationError(
            {"non_field_errors": [f"must be a JSON object, not {fields.show(data)}"]}
        )
    if unknown := sorted(set(data) - set(known)):
        message = f"unknown field; the fields are {', '.join(known)}"
        raise serializers.ValidationError({unknown[0][:64]: [message]})


def refuse_body(data: Any) -> None:
    """Raise ValidationError for a body of a call that takes none: what it asks for would be ignored."""
    if data:
        message = ["this call takes no fields"]
        raise serializers.ValidationError({next(iter(data))[:64]: message} if isinstance(data, dict) else message)


class SubmissionSerializer(serializers.Serializer[Any]):
    """One job to be."""

    endpoint = OneOfField(choices=[e.value for e in Endpoint], default=Endpoint.CHAT.value)
    tier = TextField(required=False, allow_null=True, default=None, max_length=32)
    body = ObjectField(help_text="The request body as the endpoint below /v1/ takes it.")

    def to_internal_value(self, data: Any) -> Any:
        """Refuse fields that do not exist: a misspelt tier must not be the default one."""
        refuse_unknown(data, self.fields)
        return super().to_internal_value(data)


class BulkSerializer(serializers.Serializer[Any]):
    """Up to 1,000 jobs, all of them accepted or none."""

    jobs = SubmissionSerializer(many=True, allow_empty=False)

    def to_internal_value(self, data: Any) -> Any:
        """Refuse what stands beside the list: no job of it would heed that."""
        refuse_unknown(data, self.fields)
        return super().to_internal_value(data)


class JobFilterSerializer(serializers.Serializer[Any]):
    """What a list of jobs can be narrowed by."""

    status = OneOfField(choices=[s.value for s in JobStatus], required=False)
    tier = TextField(required=False, allow_blank=True, source="tier_id")
    model = TextField(required=False, allow_blank=True, source="model_id")

    def validate_tier(self, name: str) -> str:
        """Refuse a tier that does not exist: it would look like one without jobs."""
        return _existing(Tier.objects.all(), name)

    def validate_model(self, name: str) -> str:
        """Refuse a model that was never served."""
        return _existing(ServedModel.objects.all(), name)


class JobListSerializer(JobFilterSerializer):
    """Every parameter of a list of jobs."""

    limit = NumberField(required=False, low=1, high=MAX_PAGE)
    cursor = TextField(required=False)

    @property
    def filters(self) -> dict[str, Any]:
        """What was asked for, as the model's lookups."""
        return {name: value for name, value in self.validated_data.items() if name not in {"limit", "cursor"}}


JOB_LIST: Final = tuple(JobListSerializer().fields)
"""The names of its parameters."""


def _existing(rows: QuerySet[Any], name: str) -> str:
    names = sorted(rows.values_list("pk", flat=True))
    if name not in names:
        raise serializers.ValidationError(f"must be one of {', '.join(names)}, not {fields.show(name)}")
    return name
