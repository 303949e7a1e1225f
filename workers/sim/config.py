"""What the simulated engine is told."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Final

KEY: Final = "SLUICE_SIM_KEY"
"""Environment variable: the key that `/v1/` then asks for. No option, since a command line can be read by all."""
BLOCK_TOKENS: Final = 16
"""KV cache is handed out in blocks of this many tokens, as in vLLM."""


@dataclass(frozen=True, slots=True)
class SimConfig:
    """The simulated device and model."""

    model: str
    max_model_len: int = 8192
    max_num_seqs: int = 32
    max_num_batched_tokens: int = 2048
    """Tokens one step computes at most, prompts and outputs together."""
    kv_tokens: int = 32_768
    """Size of the KV cache."""
    prefill_tps: float = 20_000.0
    """Prompt tokens computed per second, shared by all sequences."""
    decode_tps: float = 100.0
    """Output tokens per second of each running sequence; a batch is as fast as a single one."""
    load_seconds: float = 0.0
    """Before the socket opens."""
    seed: int = 0
    fact_question: str = "What is the capital of France?"
    fact_answer: str = "Paris"
    """A prompt that contains the question is answered with this: by itself, what a fresh engine is asked."""
    refuses: str = ""
    """Fields of a body, with commas, that it does not know and answers with a 400, as stricter engines do."""
    crash_on: str = ""
    """A prompt that contains this ends the process at once, as a request that kills its engine does."""
    hang_on: str = ""
    """A prompt that contains this stops all computing, while `/health` and `/metrics` are still answered."""
    key: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        # vLLM refuses to start likewise: such a sequence could never finish.
        whole = self.kv_tokens // BLOCK_TOKENS * BLOCK_TOKENS
        if self.max_model_len > whole:
            blocks = f"{whole} in whole blocks of {BLOCK_TOKENS}"
            raise ValueError(
                f"max_model_len {self.max_model_len} is larger than kv_tokens {self.kv_tokens} ({blocks})"
            )


@dataclass(frozen=True, slots=True)
class Address:
    """Where it listens: on a Unix socket, or on a TCP port."""

    uds: str | None
    host: str
    port: int | None


def parse(arguments: Sequence[str]) -> tuple[Address, SimConfig]:
    """Read the command line: the address, and the rest. Of a repeated option the last one counts."""
    parser = argparse.ArgumentParser(prog="python -m workers.sim", description=__doc__)
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--uds", help="Unix socket to listen on")
    place.add_argument("--port", type=int, help="TCP port to listen on")
    parser.add_argument("--host", default="127.0.0.1", help="address of the port (%(default)s)")
    for option in [each for each in fields(SimConfig) if each.name != "key"]:
        required = option.name == "model"
        default = None if required else option.default
        name = f"--{option.name.replace('_', '-')}"
        parser.add_argument(name, type=option.type, required=required, default=default)
    values = vars(parser.parse_args(arguments))
    address = Address(*(values.pop(name) for name in ("uds", "host", "port")))
    return address, SimConfig(**values, key=os.environ.get(KEY, ""))
