"""App configuration."""

from django.apps import AppConfig


class WorkersConfig(AppConfig):
    """The worker side; an app for its management commands only."""

    name = "workers"
