"""A clock of its own for each part of a stack, which can jump while the part runs: libfaketime, told by a file.

    python -m tests.acceptance.faults.clocks FOLDER up …

is `manage.py up` with such parts. Clocks that measure spans (CLOCK_MONOTONIC) go on as they are, and the machine's
clock is not touched. An engine shares its worker's.
"""

import dataclasses
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

if TYPE_CHECKING:
    from project.stack.config import StackConfig
    from project.stack.parts import Part

LIBRARY: Final = "*/faketime/libfaketimeMT.so.1"
"""In Debian's package `libfaketime`, below /usr/lib."""
MEMORY: Final = Path("/dev/shm")
PRELOAD: Final = Path(__file__).with_name("preload")
RIGHT: Final = "+0"


def library() -> Path | None:
    """Where libfaketime is, if it is installed."""
    return next(Path("/usr/lib").glob(LIBRARY), None)


def clean_up() -> None:
    """Remove what libfaketime leaves of processes that were killed: a semaphore and some memory each."""
    for path in MEMORY.glob("*faketime*_*"):
        if not psutil.pid_exists(int(path.name.rpartition("_")[2])):
            path.unlink(missing_ok=True)


def set_clock(folder: Path, part: str, offset: str) -> None:
    """Have the part's clock show `offset`, as in `+1h`, within a second; whole for who reads it now."""
    path = _path(folder, part)
    fresh = path.with_suffix(".new")
    fresh.write_text(f"{offset}\n")
    fresh.rename(path)


def _path(folder: Path, part: str) -> Path:
    return folder / f"{part}.clock"


def environment(folder: Path, part: str) -> dict[str, str]:
    """What gives a process the part's clock."""
    return {
        "LD_PRELOAD": str(library()),
        "FAKETIME_TIMESTAMP_FILE": str(_path(folder, part)),
        "FAKETIME_CACHE_DURATION": "1",  # seconds; to read the file at every look costs more than all else
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
        "PYTHONPATH": str(PRELOAD),
    }


def _with_clock(part: "Part", folder: Path) -> "Part":
    set_clock(folder, part.name, RIGHT)
    settings = (f"{name}={value}" for name, value in environment(folder, part.name).items())
    return dataclasses.replace(part, command=("/usr/bin/env", *settings, *part.command))


def main(folder: Path, arguments: list[str]) -> None:
    """Run `manage.py` with parts that have their clocks in `folder`."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    from django.core.management import execute_from_command_line  # noqa: PLC0415 - after the line above

    from project.stack import parts  # noqa: PLC0415

    build = parts.build

    def build_with_clocks(config: "StackConfig") -> "list[Part]":
        return [_with_clock(part, folder) for part in build(config)]

    parts.build = build_with_clocks
    execute_from_command_line(["manage.py", *arguments])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
