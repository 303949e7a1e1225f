"""App configuration."""

from django.apps import AppConfig


class ProjectConfig(AppConfig):
    """The deployment: an app for its management commands only."""

    name = "project"
