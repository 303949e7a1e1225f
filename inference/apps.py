"""App configuration."""

from django.apps import AppConfig


class InferenceConfig(AppConfig):
    """The inference app."""

    name = "inference"
    verbose_name = "Queues, tenants and jobs"

    def ready(self) -> None:
        """Register the system checks, and what goes with a row."""
        from inference import checks, signals  # noqa: F401, PLC0415 - registration needs the app registry
