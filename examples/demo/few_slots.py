"""Prepare the database of the stack in `SLUICE_STATE_DIR`: few slots for its model, and patient tiers.

An admin sets the slots on the model's page in Django admin, where 32 of them would take the whole demo at once,
and deadlines on the tiers' pages. The demo shows the order of jobs: on a slow machine an urgent one waits for as
long as those that run before it take, and is not to expire.
"""

import os
from typing import Final

SLOTS: Final = 4
START_DEADLINE_SECONDS: Final = 600
"""At least so long for every tier, whether a caller waits or not."""


def main() -> None:
    """Migrate and set slots and deadlines; takes effect at the engine's start."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django  # noqa: PLC0415 - needs the settings

    django.setup()
    from django.core.management import call_command  # noqa: PLC0415

    call_command("prepare_stack")
    adjust()


def adjust() -> None:
    """Give the default model few slots and every tier a patient deadline; a longer one stays. Needs Django."""
    from inference.models import ServedModel, Tier  # noqa: PLC0415 - needs Django

    ServedModel.objects.filter(is_default=True).update(max_num_seqs=SLOTS)
    for deadline in ("start_deadline_seconds", "sync_start_deadline_seconds"):
        Tier.objects.filter(**{f"{deadline}__lt": START_DEADLINE_SECONDS}).update(
            **{deadline: START_DEADLINE_SECONDS}
        )


if __name__ == "__main__":
    main()
