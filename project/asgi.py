"""ASGI entry point: the API on its lean handler, everything else on Django's."""

import os
import resource
import sys
import warnings
from typing import Any, Final

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.exceptions import ImproperlyConfigured

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

# WhiteNoise's files are read by a thread, whole: they are small.
warnings.filterwarnings("ignore", message="StreamingHttpResponse must consume synchronous iterators")

pages = get_asgi_application()  # sets Django up, which the next import needs

from inference import checks, heap  # noqa: E402
from inference.api.handler import ApiHandler  # noqa: E402

api = ApiHandler()

API_PATHS: Final = ("/v1/", "/api/", "/dashboard/streams/")
OPEN_FILES: Final = 65_536
SWITCH_SECONDS: Final = 0.001
"""How long a thread may keep the others waiting. A request crosses from the event loop to a thread and back, and
Python's 5 ms would be lost at each crossing that meets another at work."""


def allow_many_connections() -> None:
    """Raise this process's limit on open files as far as it may: the usual 1,024 is less than its streams."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def refuse_public_secret() -> None:
    """Raise ImproperlyConfigured where sessions would be signed with what everyone can read in the source."""
    if not settings.DEBUG and (found := checks.check_secret_key()):
        raise ImproperlyConfigured(f"{found[0].msg}: {found[0].hint} It is the same for all web processes.")


refuse_public_secret()
allow_many_connections()
heap.spare_what_is_loaded()
sys.setswitchinterval(SWITCH_SECONDS)


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Hand the request to the handler of its path."""
    if scope["type"] == "lifespan":
        await _live(receive, send)
        return
    if scope["type"] == "websocket":  # none is spoken here: 403, where either handler would raise
        await send({"type": "websocket.close"})
        return
    path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
    await (api if path.startswith(API_PATHS) else pages)(scope, receive, send)


async def _live(receive: Any, send: Any) -> None:
    """End with the server: it goes by signal as soon as this is over, whatever its calls are still at."""
    while (await receive())["type"] == "lifespan.startup":
        await send({"type": "lifespan.startup.complete"})
    await api.closed()
    await send({"type": "lifespan.shutdown.complete"})
