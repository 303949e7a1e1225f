"""What the simulated engine is told. Pure."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

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
    fact_question: str = ""
    fact_answer: str = ""
    """A prompt that contains the question is answered with this."""

    def __post_init__(self) -> None:
        # vLLM refuses to start likewise: such a sequence could never finish.
        if self.max_model_len > self.kv_tokens // BLOCK_TOKENS * BLOCK_TOKENS:
            raise ValueError(f"max_model_len {self.max_model_len} is larger than kv_tokens {self.kv_tokens}")


def parse(arguments: Sequence[str]) -> tuple[str, SimConfig]:
    """Read the command line: the socket's path, and the rest. Of a repeated option the last one counts."""
    parser = argparse.ArgumentParser(prog="python -m workers.sim", description=__doc__)
    parser.add_argument("--uds", required=True, help="Unix socket to listen on")
    for field in fields(SimConfig):
        required = field.name == "model"
        default = None if required else field.default
        option = f"--{field.name.replace('_', '-')}"
        parser.add_argument(option, type=field.type, required=required, default=default)
    values = vars(parser.parse_args(arguments))
    return values.pop("uds"), SimConfig(**values)
