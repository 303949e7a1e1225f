"""What an admin may set: every number has two bounds, so that a slip of the keyboard is refused with words."""

from datetime import timedelta

import pytest
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from inference.models import ApiKey, LengthClass, QueueLimit, ServedModel, Tenant, Tier
from inference.models.validators import LONGEST_SECONDS

FIELDS = [
    pytest.param(field, id=f"{model._meta.model_name}.{field.name}")
    for model in (Tier, LengthClass, QueueLimit, ServedModel, Tenant, ApiKey)
    for field in model._meta.concrete_fields
    if isinstance(field, models.FloatField | models.IntegerField) and field.editable
]


@pytest.mark.parametrize("field", FIELDS)
def test_a_number_has_two_bounds(field: "models.Field[object, object]") -> None:
    kinds = {type(validator) for validator in field.validators}
    assert {MinValueValidator, MaxValueValidator} <= kinds


@pytest.mark.parametrize(
    ("name", "value"), [("max_num_seqs", 0), ("max_model_len", 0), ("default_output_tokens", 0)]
)
def test_a_model_that_holds_nothing_is_refused(name: str, value: int) -> None:
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        ServedModel(name="m", **{name: value}).clean_fields()


def test_a_time_beyond_all_dates_is_refused_and_the_longest_has_an_end() -> None:
    with pytest.raises(ValidationError, match="less than or equal to"):
        Tier(name="t", start_deadline_seconds=99999999999999999999.0).clean_fields()
    assert timedelta(seconds=LONGEST_SECONDS) < timedelta(days=400)
