"""What one call takes of its engine, as far as it is known while it runs."""

import time


class Meter:
    """Times one call and counts what a stream brings. Belongs to the event loop."""

    __slots__ = ("_began", "_ended", "_first", "chunks")

    def __init__(self) -> None:
        self.chunks = 0
        """Events of a stream so far: about as many as tokens."""
        self._began: float | None = None
        self._first: float | None = None
        self._ended: float | None = None

    def start(self) -> None:
        """Begin: the engine is called now."""
        self._began = time.monotonic()

    def hear(self, chunks: int) -> None:
        """Count events of a stream."""
        self._first = self._first or time.monotonic()
        self.chunks += chunks

    def stop(self) -> None:
        """End: the whole answer is there, or will not come. Only the first end counts."""
        self._ended = self._ended or time.monotonic()

    @property
    def seconds(self) -> float:
        """Time in the engine, so far or until the answer was there; 0 if it was never called."""
        return 0.0 if self._began is None else (self._ended or time.monotonic()) - self._began

    @property
    def first_token_seconds(self) -> float | None:
        """From the call to a stream's first output; None before, and of a plain answer."""
        return None if self._began is None or self._first is None else self._first - self._began
