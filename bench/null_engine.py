"""An engine that does nothing, so that what is left is our own work. Of the suite: no option of the product."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Final

from workers.engine import EngineCall, EngineGauges

KV_TOKENS: Final = 1 << 20
"""Enough for all slots: the sequences are the bound."""
ANSWER: Final = {
    "id": "chatcmpl-bench",
    "object": "chat.completion",
    "created": 0,
    "model": "bench",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "one two " * 16}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 64, "completion_tokens": 32, "total_tokens": 96},
}
"""What both sides of a comparison store as their result."""
_ENCODED: Final = json.dumps(ANSWER).encode()


class NullEngine:
    """Answers at once; see `workers.engine.Engine`."""

    def __init__(self) -> None:
        self.exited = asyncio.Event()

    async def start(self) -> None:
        """Be there."""
        self.exited.clear()

    async def stop(self) -> None:
        """Be gone."""
        self.exited.set()

    async def warm_up(self) -> None:
        """Have nothing to show."""

    async def gauges(self) -> EngineGauges:
        """Return gauges of an idle engine."""
        return EngineGauges(0, 0, kv_capacity_tokens=KV_TOKENS, kv_used_share=0.0, preemptions=0)

    async def generate(self, _call: EngineCall) -> bytes:
        """Return the one answer."""
        return _ENCODED

    async def stream(self, _call: EngineCall) -> AsyncGenerator[bytes, None]:
        """Yield an empty stream."""
        yield b"data: [DONE]\n\n"
