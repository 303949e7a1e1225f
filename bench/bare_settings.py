"""Settings of the bare application (`bench.bare_app`): the database of `BARE_DATABASE`, and nothing of ours."""

import json
import os

SECRET_KEY = "of a measurement"  # noqa: S105 - it signs nothing
ALLOWED_HOSTS = ["*"]
INSTALLED_APPS: list[str] = []
MIDDLEWARE: list[str] = []
ROOT_URLCONF = "bench.bare_app"
DATABASES = {"default": json.loads(os.environ["BARE_DATABASE"])}
USE_TZ = True
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": [],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "UNAUTHENTICATED_USER": None,
}
