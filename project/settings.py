"""All settings, read from the environment once; `README.md` lists the variables."""

from pathlib import Path
from typing import Any, Final

from django.core.exceptions import ImproperlyConfigured
from environs import Env, validate

from project import admin_look
from project.stack import address

env = Env()

BASE_DIR: Final = Path(__file__).resolve().parent.parent
STATE_DIR: Final = env.path("SLUICE_STATE_DIR", BASE_DIR / ".sluice")
"""Where the embedded stack keeps its database, Valkey's files, sockets and secrets."""

DEBUG = env.bool("DJANGO_DEBUG", False)
SECRET_KEY = env.str("DJANGO_SECRET_KEY", "insecure-for-development-only-set-DJANGO_SECRET_KEY")
ALLOWED_HOSTS: list[str] = env.list("DJANGO_ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS: list[str] = env.list("DJANGO_CSRF_TRUSTED_ORIGINS", [])

INSTALLED_APPS = [
    "unfold",  # before the admin, whose site it replaces
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_htmx",
    "rest_framework",
    "rest_framework_api_key",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "inference",
    "workers",
    "project",
]

# Pages only: the API is served without them (project/asgi.py), since each costs a thread switch a request.
MIDDLEWARE = [
    "project.null_bytes.refuse_null_bytes",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "project.urls"
ASGI_APPLICATION = "project.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]


DATABASE_CONNECTIONS = env.int("SLUICE_DATABASE_CONNECTIONS", 16, validate=validate.Range(min=1))
"""Most connections of one process to PostgreSQL; the system checks say if they are too few."""
DATABASE_WAIT_SECONDS: Final = 3.0
"""How long a thread waits for a connection before it says that the database is away."""


def _database() -> dict[str, Any]:
    """Parse `DATABASE_URL`; options of PostgreSQL in its query, such as `?sslmode=require`, are kept."""
    config: dict[str, Any] = dict(env.dj_db_url("DATABASE_URL", f"sqlite:///{STATE_DIR / 'sluice.sqlite3'}"))
    match config["ENGINE"]:
        case "django.db.backends.sqlite3":
            config |= {"ENGINE": "project.sqlite", "CONN_MAX_AGE": 600, "OPTIONS": SQLITE_OPTIONS}
        case "django.db.backends.postgresql":
            options = {**POSTGRESQL_OPTIONS, **config.get("OPTIONS", {}), "pool": _pool()}
            config |= {"ENGINE": "project.postgresql", "CONN_MAX_AGE": 0, "OPTIONS": options}
        case other:
            raise ImproperlyConfigured(f"DATABASE_URL: Sluice runs on SQLite and PostgreSQL, not on {other}")
    return config


def _pool() -> dict[str, Any]:
    return {
        "min_size": 0,  # a process that asks nothing holds nothing
        "max_size": DATABASE_CONNECTIONS,
        "timeout": DATABASE_WAIT_SECONDS,
        "reconnect_timeout": DATABASE_WAIT_SECONDS,  # who then still waits is told; the next one tries anew
    }


SQLITE_OPTIONS: Final[dict[str, Any]] = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    # WAL, and an answered submission is on disk.
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-16000;",
}
POSTGRESQL_OPTIONS: Final[dict[str, Any]] = {
    "application_name": "sluice",
    "connect_timeout": 3,
    # A server that vanished without a word is given up within half a minute, not after a quarter of an hour.
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
DATABASES = {"default": _database()}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CURRENCY = env.str("SLUICE_CURRENCY", "USD", validate=validate.Length(min=1, max=8))
"""Of prices, costs and budgets: a label, nothing is converted."""

REDIS_URL = env.str("REDIS_URL", "") or address.find(STATE_DIR) or "redis://127.0.0.1:6379/0"
BROKER_PREFIX = env.str("SLUICE_BROKER_PREFIX", "{sluice}:")
"""Before every Redis key; the braces keep all keys in one hash slot."""

LEASE_SECONDS = env.float("SLUICE_LEASE_SECONDS", 20.0, validate=validate.Range(min=1))
DRAIN_SECONDS = env.float("SLUICE_DRAIN_SECONDS", 60.0, validate=validate.Range(min=0))
"""How long a worker told to stop may finish what it runs."""
RECONCILE_SECONDS = env.float("SLUICE_RECONCILE_SECONDS", 10.0, validate=validate.Range(min=0.5))
ENGINE_KIND = env.str("SLUICE_ENGINE", "vllm", validate=validate.OneOf(["vllm", "sim", "external"]))
ENGINE_URL = env.str("SLUICE_ENGINE_URL", "")
ENGINE_KEY = env.str("SLUICE_ENGINE_KEY", "")
"""Of an external engine. In the environment only, since every user of a machine can read command lines."""
MODELS_DIR = env.path("SLUICE_MODELS_DIR", BASE_DIR / "models")
"""Relative `source` paths of served models start here."""

BODY_BYTES = env.int("SLUICE_BODY_BYTES", 256 * 1024, validate=validate.Range(min=0))
"""Larger requests are kept in the storage, not in the database."""
STORAGES: dict[str, Any] = {
    "default": {
        "BACKEND": env.str("SLUICE_STORAGE", "django.core.files.storage.FileSystemStorage"),
        # Prompts: nobody else's to read.
        "OPTIONS": env.json(
            "SLUICE_STORAGE_OPTIONS",
            {
                "location": str(STATE_DIR / "storage"),
                "file_permissions_mode": 0o600,
                "directory_permissions_mode": 0o700,
            },
        ),
    },
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_I18N = False
FORMAT_MODULE_PATH = "project.formats"
USE_TZ = True

LOGIN_URL = "dashboard:login"
LOGIN_REDIRECT_URL = "dashboard:home"
LOGOUT_REDIRECT_URL = "dashboard:login"

UNFOLD = admin_look.UNFOLD

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = True  # served from where they are installed: nothing to collect
WHITENOISE_AUTOREFRESH = DEBUG

# Bodies are bounded by inference.limits.MAX_BODY_BYTES with an error of our own; this is the backstop.
DATA_UPLOAD_MAX_MEMORY_SIZE = 16 * 1024 * 1024

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["inference.api.authentication.ApiKeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["inference.api.native.formats.JsonRenderer"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "inference.api.native.formats.Negotiation",
    "DEFAULT_PARSER_CLASSES": ["inference.api.native.formats.ObjectParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "inference.api.errors.exception_handler",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Sluice",
    "DESCRIPTION": "A self-hosted queue in front of vLLM.",
    "VERSION": "0.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "inference.api.schema.add_async_endpoints",
    ],
    # The docs page is served whole from here: it works without the internet.
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": "project.logging.LineFormatter"}},
    "filters": {
        "refusals": {"()": "project.logging.Refusals"},
        "bad_hosts": {"()": "project.logging.BadHosts"},
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "loggers": {
        "django.request": {"filters": ["refusals"]},
        "django.security.DisallowedHost": {"filters": ["bad_hosts"]},
    },
    "root": {"handlers": ["console"], "level": env.str("SLUICE_LOG_LEVEL", "INFO")},
}
