"""What a name or a list in a row may be."""

from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator

from inference import routing

slug = RegexValidator(r"^[a-z0-9][a-z0-9_-]*$", "lower-case letters, digits, '-' and '_' only")
model_name = RegexValidator(r"^[A-Za-z0-9][A-Za-z0-9._/-]*$", "letters, digits, '.', '_', '/' and '-' only")


def list_of_strings(value: object) -> None:
    """Accept a JSON list of strings. Raises ValidationError."""
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise ValidationError('must be a list of strings, as ["a", "b"]')


def queue_name(value: str) -> None:
    """Accept `<model>.<tier>.<length>`. Raises ValidationError."""
    try:
        routing.parse(value)
    except ValueError:
        raise ValidationError(f"must be <model>.<tier>.<length>, not {value}") from None
