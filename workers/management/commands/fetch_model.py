"""`manage.py fetch_model`: put the bundled model where the embedded default looks for it."""

import subprocess
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from workers import bundled_model


class Command(BaseCommand):
    """Convert the bundled model into `MODELS_DIR`; does nothing if it is there already."""

    help = "Convert the bundled model (SmolLM2-135M-Instruct, 270 MB) into SLUICE_MODELS_DIR. Safe to repeat."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 (Django's signature)
        """Run the conversion in a process of its own. Raises CommandError if it fails."""
        target = settings.MODELS_DIR / bundled_model.NAME
        if bundled_model.is_ready(target):
            self.stdout.write(f"The model is already in {target}")
            return
        self._convert(str(target))
        self.stdout.write(f"The model is in {target}")

    def _convert(self, target: str) -> None:
        try:
            bundled_model.weights()
        except bundled_model.NotInstalled as error:
            raise CommandError(str(error)) from error
        command = [sys.executable, "-m", "workers.bundled_model", target]
        done = subprocess.run(command, check=False, cwd=settings.BASE_DIR)  # noqa: S603 (our own module)
        if done.returncode:
            raise CommandError("The conversion failed; what it said is above.")
