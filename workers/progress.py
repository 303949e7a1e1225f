"""Whether an engine that has work gets on with it: one that hangs may answer `/health` for ever. Pure."""

import contextlib
from collections.abc import Hashable, Iterator
from typing import Final

from inference.limits import ModelLimits

STEP_TOKENS: Final = 8192
"""Computed in one step at most, where the model's row does not say."""
BYTES_PER_TOKEN: Final = 2
"""Of a request, at least: what a prompt is taken to be at most in tokens."""
SLACK: Final = 4
"""How much slower than the model's row says an engine may compute a prompt."""


class Progress:
    """Any output, and any change in what the engine says of itself, is progress. Asked every few seconds."""

    def __init__(self, model: ModelLimits, *, look_seconds: float) -> None:
        self._model = model
        self._longest_gap = 2 * look_seconds
        """Between two looks this much counts at most: a machine that stood still is no engine that hangs."""
        self._calls: dict[object, int] = {}
        self._is_heard = False
        self._said: Hashable = None
        self._looked_at = 0.0
        self._silent_seconds = 0.0

    @contextlib.contextmanager
    def call(self, body: bytes) -> Iterator[None]:
        """Count a request as inside the engine."""
        key = object()
        self._calls[key] = min(len(body) // BYTES_PER_TOKEN, self._model.max_model_len)
        try:
            yield
        finally:  # no progress in itself: it may have been cancelled
            del self._calls[key]

    def hear(self) -> None:
        """Note that output came."""
        self._is_heard = True

    def hangs(self, said: Hashable, *, now: float) -> bool:
        """Whether the engine has been silent for too long; `said` is what it says of itself, None if nothing."""
        gap = min(now - self._looked_at, self._longest_gap)
        is_silent = self._calls and not self._is_heard and said in {None, self._said}
        self._silent_seconds = self._silent_seconds + gap if is_silent else 0.0
        self._is_heard, self._said, self._looked_at = False, said or self._said, now
        return self._silent_seconds > self.patience_seconds

    @property
    def patience_seconds(self) -> float:
        """How long it may show no progress, at what it has to do: one step can be a long prompt's."""
        largest_step = min(sum(self._calls.values()), self._model.max_num_batched_tokens or STEP_TOKENS)
        return self._model.stall_seconds + SLACK * largest_step / self._model.prefill_tokens_per_second
