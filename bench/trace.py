"""The Azure conversation trace as arrivals: a window of it, dealt to tiers and scaled to an engine.

Source and licence: `bench/data/README.md`.
"""

import csv
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).parent / "data" / "AzureLLMInferenceTrace_conv.csv"
WINDOW_SECONDS: Final = 300.0
SEED: Final = b"sluice"
DEAL: Final = (("realtime", 0.2), ("standard", 0.8), ("bulk", 1.0))
"""Each tier, and the share of all that it and those before it have."""
SERVICE_TIERS: Final = {"realtime": "priority", "standard": "default", "bulk": "flex"}


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request: when, how long, and how urgent."""

    at: float
    """Seconds from the start."""
    prompt_tokens: int
    output_tokens: int
    tier: str


@dataclass(frozen=True, slots=True)
class Engine:
    """What an engine gets through, as far as a load is put in relation to it."""

    slots: int
    prefill_tps: float
    """Shared by all sequences."""
    decode_tps: float
    """Of each sequence, however many run."""

    def sim(self, *, kv_tokens: int = 131_072) -> str:
        """Return the options that make the simulated engine this one; its slots are the model's."""
        return f"--decode-tps {self.decode_tps:g} --prefill-tps {self.prefill_tps:g} --kv-tokens {kv_tokens}"

    def seconds(self, work: Sequence[Arrival]) -> float:
        """Time for all the work if no slot is ever empty: prompts stop all sequences, outputs share the slots."""
        prefill = sum(arrival.prompt_tokens for arrival in work) / self.prefill_tps
        return prefill + sum(arrival.output_tokens for arrival in work) / (self.slots * self.decode_tps)


def window() -> list[Arrival]:
    """Return the arrivals of the first 300 s, in order."""
    with FILE.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    first = _time(rows[0])
    arrivals = [_arrival(number, row, first) for number, row in enumerate(rows)]
    return [arrival for arrival in arrivals if arrival.at < WINDOW_SECONDS]


def deal(number: int) -> str:
    """Return the tier of the request of this number: by a seeded hash, the same in every run."""
    digest = hashlib.sha256(SEED + number.to_bytes(8, "big")).digest()
    drawn = int.from_bytes(digest[:8], "big") / 2**64
    return next(tier for tier, bound in DEAL if drawn < bound)


def shrunk(arrivals: Sequence[Arrival], divisor: int) -> list[Arrival]:
    """Return the arrivals with lengths divided, at least a token each."""
    return [
        replace(
            a, prompt_tokens=max(1, a.prompt_tokens // divisor), output_tokens=max(1, a.output_tokens // divisor)
        )
        for a in arrivals
    ]


def stretched(arrivals: Sequence[Arrival], *, busy_seconds: float, load: float) -> list[Arrival]:
    """Return the arrivals with their times scaled: work of `busy_seconds` is `load` of the time it comes in."""
    factor = busy_seconds / load / (arrivals[-1].at - arrivals[0].at)
    return [replace(a, at=(a.at - arrivals[0].at) * factor) for a in arrivals]


def _arrival(number: int, row: dict[str, str], first: datetime) -> Arrival:
    at = (_time(row) - first).total_seconds()
    return Arrival(at, int(row["ContextTokens"]), int(row["GeneratedTokens"]), deal(number))


def _time(row: dict[str, str]) -> datetime:
    return datetime.fromisoformat(row["TIMESTAMP"][:26])
