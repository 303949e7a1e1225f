"""The secrets of one embedded stack, made once and kept in its state folder, readable by its owner only."""

import dataclasses
import json
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

FILE_NAME: Final = "credentials.json"
ADMIN_USER: Final = "admin"
FLOWER_USER: Final = "flower"


def _secret() -> str:
    return secrets.token_urlsafe(24)


@dataclass(frozen=True, slots=True)
class Credentials:
    """All logins and keys of the stack."""

    django_secret_key: str = field(default_factory=lambda: secrets.token_urlsafe(50))
    valkey_password: str = field(default_factory=_secret)
    admin_user: str = ADMIN_USER
    admin_password: str = field(default_factory=_secret)
    flower_user: str = FLOWER_USER
    flower_password: str = field(default_factory=_secret)
    api_key: str = ""
    """Empty until the database is there to make it."""

    @property
    def flower_login(self) -> str:
        """`user:password`, as Flower takes it."""
        return f"{self.flower_user}:{self.flower_password}"


def load(state_dir: Path) -> Credentials:
    """Read the stack's credentials; make and keep them if there are none."""
    path = state_dir / FILE_NAME
    if path.exists():
        return Credentials(**json.loads(path.read_text()))
    fresh = Credentials()
    save(state_dir, fresh)
    return fresh


def save(state_dir: Path, credentials: Credentials) -> None:
    """Write the credentials, mode 600, all or nothing."""
    write_private(state_dir / FILE_NAME, json.dumps(dataclasses.asdict(credentials), indent=2))


def write_private(path: Path, text: str) -> None:
    """Put `text` at `path` with mode 600; a reader sees the old file or the new one, never half."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text + "\n")
    draft.replace(path)
