"""One terminal for all parts: every line behind the name of the part that wrote it."""

import sys
from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Final, TextIO

KEPT_LINES: Final = 25
"""Last lines of each part, shown when it fails for good."""
COLOURS: Final = (36, 32, 35, 33, 34, 96, 92, 95, 93, 94)
OWN_NAME: Final = "up"


class Output:
    """Cuts what parts write into lines and prefixes them. Belongs to one thread."""

    def __init__(self, names: Iterable[str], stream: TextIO = sys.stdout) -> None:
        known = [OWN_NAME, *names]
        self._stream = stream
        self._width = max(len(name) for name in known)
        self._colour = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(known)}
        self._open: dict[tuple[str, str], bytes] = {}
        self._last: dict[str, deque[str]] = defaultdict(lambda: deque(maxlen=KEPT_LINES))

    def feed(self, name: str, channel: str, data: bytes) -> None:
        """Take bytes that `name` wrote to `channel`; whole lines are shown, the rest waits for its end."""
        *lines, rest = (self._open.get((name, channel), b"") + data).split(b"\n")
        self._open[name, channel] = rest
        for line in lines:
            self._show(name, line.decode(errors="replace").rstrip("\r"))
        self._stream.flush()

    def say(self, text: str) -> None:
        """Show lines of our own."""
        for line in text.splitlines() or [""]:
            self._show(OWN_NAME, line)
        self._stream.flush()

    def announce(self, text: str) -> None:
        """Show text as it is, to be copied from."""
        self._stream.write(text)
        self._stream.flush()

    def last_lines(self, name: str) -> list[str]:
        """Return what `name` wrote last, an unfinished line included."""
        unfinished = [rest.decode(errors="replace") for (n, _), rest in self._open.items() if n == name and rest]
        return [*self._last[name], *unfinished][-KEPT_LINES:]

    def _show(self, name: str, line: str) -> None:
        self._last[name].append(line)
        prefix = f"{name:<{self._width}} |"
        if self._stream.isatty():
            prefix = f"\x1b[{self._colour.get(name, 37)}m{prefix}\x1b[0m"
        self._stream.write(f"{prefix} {line}\n")
