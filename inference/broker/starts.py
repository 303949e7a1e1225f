"""Verbs on which jobs started in time; what it means is in `inference.objectives`, and it decides nothing."""

from collections.abc import Sequence
from typing import Any

from inference import objectives
from inference.broker import base, keys
from inference.broker.types import Token
from inference.objectives import Starts


class StartVerbs(base.Verbs):
    """What workers tell of parked jobs, and pages ask; claims and ends count in their own scripts."""

    def began(self, token: Token, target_seconds: float | None) -> bool:
        """Count a job that was parked as started now, in time if it waited no longer. False: not ours any more."""
        target_ms = base.target_ms(target_seconds)
        return bool(self._call("began", token.job_id.bytes, token.claim_id.bytes, target_ms))

    def starts(self, queues: Sequence[str]) -> dict[str, tuple[Starts, ...]]:
        """Return how many started in time, of each queue for each of `objectives.WINDOWS`; one round trip."""
        if not queues:
            return {}
        with self.client.pipeline(transaction=False) as pipe:
            pipe.time()
            pipe.mget([keys.starts(self.prefix, queue) for queue in queues])
            answers: list[Any] = pipe.execute()
        (seconds, _), found = answers
        return {q: objectives.read(kept, seconds) for q, kept in zip(queues, found, strict=True)}
