"""Where the Redis server of the stack in a state folder is: for processes that nobody gave a `REDIS_URL`."""

from pathlib import Path
from typing import Final

from project.stack import credentials

FILE_NAME: Final = "redis-url"


def write(state_dir: Path, redis_url: str) -> None:
    """Tell it from now on; the owner only, since it holds the password."""
    credentials.write_private(state_dir / FILE_NAME, redis_url)


def forget(state_dir: Path) -> None:
    """Tell it no more: the stack ends."""
    (state_dir / FILE_NAME).unlink(missing_ok=True)


def find(state_dir: Path) -> str:
    """Return the URL; "" where no stack runs, or another user's."""
    try:
        return (state_dir / FILE_NAME).read_text().strip()
    except OSError:
        return ""
