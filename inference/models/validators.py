"""What a name or a list in a row may be."""

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator

from inference import fields, routing

LONGEST_SECONDS = 366 * 24 * 3600
"""Of any time that an admin sets: a year. More is a slip of the keyboard, and dates have an end."""
LARGEST = 1_000_000_000
"""Of any other number that an admin sets and nothing else bounds."""

slug = RegexValidator(r"^[a-z0-9][a-z0-9_-]*$", "lower-case letters, digits, '-' and '_' only")
model_name = RegexValidator(r"^[A-Za-z0-9][A-Za-z0-9._/-]*$", "letters, digits, '.', '_', '/' and '-' only")


def list_of_strings(value: object) -> None:
    """Accept a JSON list of strings. Raises ValidationError."""
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise ValidationError('must be a list of strings, as ["a", "b"]')
    if not all(map(fields.is_sound, value)):
        raise ValidationError(fields.SOUND)


def queue_name(value: str) -> None:
    """Accept `<model>.<tier>.<length>`. Raises ValidationError."""
    try:
        routing.parse(value)
    except ValueError:
        raise ValidationError(f"must be <model>.<tier>.<length>, not {value}") from None


def between(least: float, most: float) -> list[MinValueValidator | MaxValueValidator]:
    """Return the validators of a number with two bounds, both included."""
    return [MinValueValidator(least), MaxValueValidator(most)]


def seconds(least: float) -> list[MinValueValidator | MaxValueValidator]:
    """Return the validators of a time of a year at most."""
    return between(least, LONGEST_SECONDS)


def whole(least: int) -> list[MinValueValidator | MaxValueValidator]:
    """Return the validators of a count."""
    return between(least, LARGEST)
