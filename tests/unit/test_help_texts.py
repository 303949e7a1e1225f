"""What forms say of each setting."""

import pytest
from django.db.models import Field

from inference.models import ApiKey, Budget, Job, LengthClass, Price, QueueLimit, ServedModel, Tenant, Tier

RESTART = "Needs an engine restart."
FIELDS = [
    field
    for model in (Tier, LengthClass, QueueLimit, ServedModel, Tenant, ApiKey, Price, Budget)
    for field in model._meta.concrete_fields
    if field.editable and field.help_text
]


@pytest.mark.parametrize("field", FIELDS, ids=str)
def test_a_help_text_says_what_the_setting_does(field: "Field[object, object]") -> None:
    told = str(field.help_text)
    assert told.replace(RESTART, "").strip(), "a restart is all that it says"
    assert not told.startswith("Of "), "it begins in the middle"


def test_a_job_says_of_its_hold_that_it_is_one() -> None:
    assert str(Job._meta.get_field("hold_ends_at").help_text).startswith("Until when a full queue holds this call")
