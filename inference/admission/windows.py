"""Rates: what was let in lately, in buckets of time. Pure; the broker's scripts do the same.

A window counts whole buckets, and with them the one that is partly over: what came within its time is in it, and
what came in one bucket more. So no stretch of that time, wherever it begins, sees more than the limit.
"""

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Size:
    """How far back a window counts."""

    width_ms: int
    """Of a bucket."""
    count: int
    """Buckets beside the one under way."""


MINUTE: Final = Size(1000, 60)
SECOND: Final = Size(100, 10)


@dataclass(slots=True)
class Bucket:
    """What came within one width."""

    at: int
    requests: float = 0
    tokens: float = 0


@dataclass(slots=True)
class Window:
    """Requests and tokens of the last minute or second."""

    size: Size
    buckets: list[Bucket] = field(default_factory=list)

    def live(self, now_ms: int) -> list[Bucket]:
        """Return the buckets that count, oldest first; one from the future came now: the clock was set back."""
        now = now_ms // self.size.width_ms
        moved = [Bucket(min(b.at, now), b.requests, b.tokens) for b in self.buckets]
        return [bucket for bucket in moved if bucket.at >= now - self.size.count]

    def requests(self, now_ms: int) -> float:
        """Return how many were let in."""
        return sum(bucket.requests for bucket in self.live(now_ms))

    def tokens(self, now_ms: int) -> float:
        """Return for how many tokens."""
        return sum(bucket.tokens for bucket in self.live(now_ms))

    def add(self, requests: float, tokens: float, now_ms: int) -> None:
        """Let some in."""
        self.buckets, at = self.live(now_ms), now_ms // self.size.width_ms
        if not self.buckets or self.buckets[-1].at != at:
            self.buckets.append(Bucket(at))
        self.buckets[-1].requests += requests
        self.buckets[-1].tokens += tokens

    def give_back(self, at_ms: int, requests: float, tokens: float, now_ms: int) -> None:
        """Count less of what was let in at `at_ms`."""
        self.buckets = self.live(now_ms)
        for bucket in self.buckets:
            if bucket.at == at_ms // self.size.width_ms:
                bucket.requests = max(0, bucket.requests - requests)
                bucket.tokens = max(0, bucket.tokens - tokens)

    def correct(self, at_ms: int, reserved: float, used: float, now_ms: int) -> None:
        """Put right what was let in for `reserved` tokens; what is too much counts from when it is known."""
        if used > reserved:
            self.add(0, used - reserved, now_ms)
        else:
            self.give_back(at_ms, 0, reserved - used, now_ms)

    def fits_after_ms(
        self, counts: list[tuple[int, float]], asked: float, limit: float, now_ms: int
    ) -> int | None:
        """Return when `asked` more fit, given the (bucket, count) that are there; None: never."""
        left = sum(count for _, count in counts) + asked - limit
        for at, count in counts:
            left -= count
            if left <= 0 and asked <= limit:
                return self._end_ms(at) - now_ms
        return None

    def clears_after_ms(self, now_ms: int) -> int:
        """Return when all of it has left the window."""
        live = self.live(now_ms)
        return self._end_ms(live[-1].at) - now_ms if live else 0

    def _end_ms(self, at: int) -> int:
        return (at + self.size.count + 1) * self.size.width_ms
