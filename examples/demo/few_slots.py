"""Prepare the database of the stack in `SLUICE_STATE_DIR`, with few slots for its model.

An admin sets the slots on the model's page in Django admin; 32 of them would take the whole demo at once.
"""

import os
from typing import Final

SLOTS: Final = 4


def main() -> None:
    """Migrate and set the slots; takes effect at the engine's start."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django  # noqa: PLC0415 - needs the settings

    django.setup()
    from django.core.management import call_command  # noqa: PLC0415

    from inference.models import ServedModel  # noqa: PLC0415 - needs Django

    call_command("prepare_stack")
    ServedModel.objects.filter(is_default=True).update(max_num_seqs=SLOTS)


if __name__ == "__main__":
    main()
