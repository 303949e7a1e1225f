"""Loaded first by every Python process with a clock of its own: libfaketime 0.9.10 breaks `time.sleep`.

That is clock_nanosleep until a moment of CLOCK_MONOTONIC, from which the library subtracts what it should not.
"""

import select
import time
from typing import SupportsIndex


def _sleep(seconds: float | SupportsIndex, /) -> None:
    select.select([], [], [], float(seconds))


time.sleep = _sleep
