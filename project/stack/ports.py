"""Which TCP ports the stack may use."""

import random
import socket
from collections.abc import Collection
from typing import Final

FLOWER_OFFSET: Final = 555
"""Flower listens this far above the web port (8000 → 8555): stacks on neighbouring ports do not meet."""

QUIET_PORTS: Final = range(20_000, 32_000)
"""Below 32,768, from where Linux takes ports for outgoing connections, and above what is usually served."""


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen on `host`:`port` now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: TIME_WAIT is no obstacle
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def any_free(host: str, *, spoken_for: Collection[int] = ()) -> int:
    """Return a port that was free a moment ago, where the kernel takes none for outgoing connections meanwhile.

    Not one that is `spoken_for`: promised to a server that has not begun to listen.
    """
    candidates = list(set(QUIET_PORTS).difference(spoken_for))
    random.SystemRandom().shuffle(candidates)  # two runs of seeded tests must not meet
    return next(port for port in candidates if is_free(host, port))


def for_flower(host: str, web_port: int) -> int:
    """Choose Flower's port: the same at every start, unless something else holds it."""
    port = web_port + FLOWER_OFFSET
    return port if port < 65536 and is_free(host, port) else any_free(host, spoken_for=[web_port])
