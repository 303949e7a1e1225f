"""DRF's fields, whose complaints tell a rule and the value that breaks it, as `inference.fields` does."""

from collections.abc import Mapping
from typing import Any, ClassVar

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.fields import empty

from inference import fields


class _Told(serializers.Field[Any, Any, Any, Any]):
    """A field of which every complaint is a rule, to which the value is added."""

    default_error_messages: ClassVar[dict[str, Any]] = {"required": "must be given", "null": "must be given"}

    def run_validation(self, data: Any = empty) -> Any:
        """Return the value. Raises ValidationError with the rule that it breaks, and itself."""
        try:
            return super().run_validation(data)
        except serializers.ValidationError as error:
            [rule, *_] = error.detail
            told = str(rule) if data is empty or data is None else f"{rule}, not {fields.show(data)}"
            raise serializers.ValidationError(told) from None


class TextField(_Told, serializers.CharField):
    """A string that is not empty."""

    default_error_messages: ClassVar[dict[str, Any]] = {
        "invalid": "must be a string",
        "blank": "must be a non-empty string",
        "max_length": "must have at most {max_length} characters",
    }

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.validators = [
            v for v in self.validators if hasattr(v, "limit_value")
        ]  # the others are `fields.SOUND`

    def to_internal_value(self, data: Any) -> str:
        """Refuse what is no text."""
        if not isinstance(data, str):
            self.fail("invalid")
        if not fields.is_sound(data):
            raise serializers.ValidationError(fields.SOUND)
        return str(super().to_internal_value(data))


class NumberField(_Told, serializers.IntegerField):
    """A whole number between two bounds."""

    def __init__(self, *, low: int, high: int, **options: Any) -> None:
        rule = f"must be a whole number from {low} to {high}"
        messages: dict[str, Any] = dict.fromkeys(("invalid", "min_value", "max_value", "max_string_length"), rule)
        super().__init__(min_value=low, max_value=high, error_messages=messages, **options)


class DayField(_Told, serializers.DateField):
    """A day."""

    default_error_messages: ClassVar[dict[str, Any]] = dict.fromkeys(
        ("invalid", "datetime"), "must be a day, as 2026-11-30"
    )


class OneOfField(_Told, serializers.ChoiceField):
    """A string that is one of those known; what is refused is told with what there is."""

    def to_internal_value(self, data: Any) -> Any:
        """Refuse what is none of them."""
        if data not in list(self.choices):
            raise serializers.ValidationError(f"must be one of {', '.join(map(str, self.choices))}")
        return data


@extend_schema_field(OpenApiTypes.OBJECT)
class ObjectField(_Told):
    """A JSON object, taken as it is: what is in it is checked by `inference.validation`."""

    def to_internal_value(self, data: object) -> Mapping[str, Any]:
        """Refuse what is not an object."""
        if not isinstance(data, dict):
            raise serializers.ValidationError("must be a JSON object")
        return data
