"""The question a fresh engine must answer before it gets work.

Status 200 is not enough: bfloat16 without compilation runs on some CPUs, and answers nonsense.
"""

import json
import uuid

from inference.limits import ModelLimits
from inference.states import Endpoint
from workers.engine import EngineCall, EngineFault

_ANSWER_TOKENS = 32


def question(model: ModelLimits) -> EngineCall:
    """Return the warm-up prompt as a greedy chat."""
    body = {
        "model": model.name,
        "messages": [{"role": "user", "content": model.warmup_prompt}],
        "temperature": 0,
        "max_tokens": _ANSWER_TOKENS,
    }
    return EngineCall(Endpoint.CHAT, json.dumps(body).encode(), request_id=f"warm-up-{uuid.uuid4()}")


def check(model: ModelLimits, reply: bytes) -> None:
    """Raise EngineFault unless the known answer is in the engine's `reply`."""
    text = json.loads(reply)["choices"][0]["message"]["content"] or ""
    if model.warmup_answer not in text:
        raise EngineFault(f"warm-up: expected {model.warmup_answer!r} in the answer, got {text!r}")
