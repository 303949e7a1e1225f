"""B14: how long an engine goes on with what nobody wants any more."""

import asyncio
import importlib.util
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import aiohttp

from bench import load, stack, statistics
from bench.row import Measured, Row, Say
from workers import metrics

ROUNDS: Final = 20
VLLM_ROUNDS: Final = 5
SIM: Final = "--decode-tps 20 --kv-tokens 65536"
OUTPUT_TOKENS: Final = 2_000
"""A hundred seconds of work, were it not ended."""
POLL_SECONDS: Final = 0.005
PATIENCE_SECONDS: Final = 30.0


class Client:
    """One client, and a look at the engine past it."""

    def __init__(self, api: load.Target, engine: load.Target) -> None:
        self._headers = {"Authorization": f"Bearer {api.key}"}
        self.api = aiohttp.ClientSession(api.base_url, headers=self._headers)
        self._engine = aiohttp.ClientSession(engine.base_url, connector=aiohttp.UnixConnector(engine.socket))

    async def close(self) -> None:
        """Close all connections."""
        await self.api.close()
        await self._engine.close()

    async def ask(self, *, stream: bool) -> None:
        """Ask for a long answer, until cancelled, which closes the connection."""
        body = stack.body(prompt_tokens=32, output_tokens=OUTPUT_TOKENS, stream=stream)
        async with self.api.post("/v1/chat/completions", json=body) as answer:
            await answer.read()

    async def cancel_running(self) -> None:
        """Cancel the one running job through the native API."""
        async with self.api.get("/api/v1/jobs/", params={"status": "running"}) as answer:
            [job] = (await answer.json())["results"]
        async with self.api.post(f"/api/v1/jobs/{job['id']}/cancel/") as answer:
            answer.raise_for_status()

    async def until_running(self, count: int) -> None:
        """Wait until the engine runs so many. Raises TimeoutError."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await self._running() != count:  # noqa: ASYNC110 - another process is asked
                await asyncio.sleep(POLL_SECONDS)

    async def _running(self) -> int:
        async with self._engine.get("/metrics") as answer:
            return metrics.parse(await answer.text()).running


def measure(say: Say) -> Measured:
    """End calls in each way and watch the engine's own gauge."""
    with stack.running("sim", sim=SIM) as running:
        seconds = asyncio.run(_all_ways(running.api, running.engine, ROUNDS, say))
    figures = {f"{way}_p50_s": statistics.median(taken) for way, taken in seconds.items()}
    longest = max(max(taken) for taken in seconds.values())
    return Measured({"longest_s": longest, **figures, **_on_vllm(say)}, _NOTES)


def _on_vllm(say: Say) -> dict[str, float]:
    """Measure on the real engine, which is reported only: it competes with the stack for the same cores."""
    if importlib.util.find_spec("vllm") is None:
        return {}
    say("the same on vLLM, which takes a minute to load")
    with stack.running("vllm") as running:
        seconds = asyncio.run(_all_ways(running.api, running.engine, VLLM_ROUNDS, say))
    return {f"vllm_{way}_longest_s": max(taken) for way, taken in seconds.items()}


_NOTES: Final = (
    f"{ROUNDS} calls in each way, one at a time, on the simulated engine with {SIM}.",
    f"On vLLM, where it is installed: {VLLM_ROUNDS} calls in each way; engine, stack and client share the cores.",
    "From the disconnect, or from the call that cancels, until the engine's own gauge says that it runs nothing.",
)


async def _all_ways(api: load.Target, engine: load.Target, rounds: int, say: Say) -> dict[str, list[float]]:
    client = Client(api, engine)
    try:
        taken = {}
        for way, (stream, end) in _WAYS.items():
            taken[way] = [await _once(client, stream=stream, end=end) for _ in range(rounds)]
            say(f"{way}: at most {max(taken[way]):.3f} s")
        return taken
    finally:
        await client.close()


async def _once(client: Client, *, stream: bool, end: "End") -> float:
    call = asyncio.create_task(client.ask(stream=stream))
    await client.until_running(1)
    began = time.perf_counter()
    await end(client, call)
    await client.until_running(0)
    seconds = time.perf_counter() - began
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    return seconds


async def _disconnect(_client: Client, call: "asyncio.Task[None]") -> None:
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


async def _cancel(client: Client, _call: "asyncio.Task[None]") -> None:
    await client.cancel_running()


End = Callable[[Client, "asyncio.Task[None]"], Awaitable[None]]
_WAYS: Final[Mapping[str, tuple[bool, End]]] = {
    "disconnect_streamed": (True, _disconnect),
    "disconnect_plain": (False, _disconnect),
    "cancel_streamed": (True, _cancel),
    "cancel_plain": (False, _cancel),
}

ROW: Final = Row(
    id="B14",
    text="cancel or disconnect until the engine no longer runs the job, streamed and plain",
    goals=("longest_s <= 1",),
    measure=measure,
)
