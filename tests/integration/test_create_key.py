"""`manage.py create_key`."""

import io

import pytest
from django.core.management import CommandError, call_command

from inference.models import ApiKey


def create_key(*args: str) -> str:
    out = io.StringIO()
    call_command("create_key", *args, stdout=out)
    return out.getvalue()


def test_the_key_alone_is_printed_and_works(db: None) -> None:
    key = create_key("--tenant", "default", "--name", "demo").removesuffix("\n")
    row = ApiKey.objects.get()

    assert row.is_valid(key)
    assert (row.tenant_id, row.name, row.tiers.count()) == ("default", "demo", 0)


def test_a_key_can_be_bound_to_tiers(db: None) -> None:
    create_key("--tenant", "default", "--name", "night", "--tier", "bulk")

    assert [tier.name for tier in ApiKey.objects.get().tiers.all()] == ["bulk"]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--tenant", "nobody", "--name", "x"], "no tenant nobody; there are: default"),
        (
            ["--tenant", "default", "--name", "x", "--tier", "gold"],
            "no tier gold; there are: bulk, realtime, standard",
        ),
    ],
)
def test_a_wrong_name_is_told_with_the_right_ones(db: None, args: list[str], told: str) -> None:
    with pytest.raises(CommandError, match=told):
        create_key(*args)

    assert not ApiKey.objects.exists()
