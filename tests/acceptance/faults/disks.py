"""A disk of its own for a database, small enough to be filled for real: a tmpfs, which only root may mount."""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SIZE_MIB: Final = 384
"""A new PostgreSQL takes 80, and its log up to 80 more."""
BALLAST: Final = "ballast"


def may_mount() -> bool:
    """Whether this user may; where not, no disk gets full, and the catalogue says so."""
    with tempfile.TemporaryDirectory() as folder:
        if os.getuid() or _mount(Path(folder)).returncode:
            return False
        subprocess.run(["umount", folder], check=True)
        return True


@contextlib.contextmanager
def small() -> Iterator[Path]:
    """A folder on a disk of its own, for the length of a `with`; an ordinary one for who may not mount."""
    with tempfile.TemporaryDirectory(prefix="disk-") as name:
        is_mounted = not os.getuid() and _mount(Path(name)).returncode == 0
        try:
            yield Path(name)
        finally:
            if is_mounted:
                subprocess.run(["umount", "--lazy", name], check=True)


def _mount(folder: Path) -> subprocess.CompletedProcess[bytes]:
    options = f"size={SIZE_MIB}m,mode=0755"
    return subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, check=False
    )


def fill(disk: Path) -> None:
    """Take the last byte that is free."""
    with (disk / BALLAST).open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
        while True:
            ballast.write(bytes(1 << 20))


def relieve(disk: Path) -> None:
    """Give it back."""
    (disk / BALLAST).unlink(missing_ok=True)
