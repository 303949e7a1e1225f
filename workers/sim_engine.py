"""The simulated engine as a child process: its command line, from the model row.

`SLUICE_SIM_ARGS` adds options (`python -m workers.sim --help` lists them), as in
`SLUICE_SIM_ARGS="--decode-tps 1000 --load-seconds 5"`.
"""

import os
import shlex
import sys
from typing import Final

from workers.child_engine import Launch
from workers.engine import EngineSpec
from workers.engine_client import Extras

ARGUMENTS: Final = "SLUICE_SIM_ARGS"
_KV_TOKENS_PER_SEQUENCE: Final = 1024
"""KV cache of the simulated device; small enough to fill up with long prompts, as real ones do."""


def launch(spec: EngineSpec) -> Launch:
    """How to start the simulated engine for `spec`; any device will do."""
    model = spec.model
    options = {
        "uds": spec.socket_path,
        "model": model.name,
        "max-model-len": model.max_model_len,
        "max-num-seqs": model.max_num_seqs,
        "max-num-batched-tokens": model.max_num_batched_tokens or 2048,
        "kv-tokens": max(model.max_model_len, model.max_num_seqs * _KV_TOKENS_PER_SEQUENCE),
        # It knows one fact: so the worker's warm-up check is passed, or failed, for real.
        "fact-question": model.warmup_prompt,
        "fact-answer": model.warmup_answer,
    }
    extra = shlex.split(spec.env.get(ARGUMENTS, os.environ.get(ARGUMENTS, "")))
    command = (sys.executable, "-m", "workers.sim", *(f"--{name}={value}" for name, value in options.items()))
    return Launch(command=(*command, *extra), env={}, extras=Extras(prompt_tokens=True))
