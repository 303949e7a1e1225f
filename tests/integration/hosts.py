"""An engine host in this process, with an engine that does what the test says."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from inference import lifecycle, snapshot
from inference.broker import Broker, Claimed
from inference.models import Job
from inference.states import EngineKind
from tests import factories
from tests.waiting import PATIENCE_SECONDS, until
from workers import readiness
from workers.config import Options, Paths, WorkerConfig
from workers.engine import EngineCall, EngineGauges
from workers.held import HELD
from workers.host import EngineHost
from workers.outcomes import Outcome
from workers.settlement import SETTLER

QUEUE = f"{factories.MODEL}.standard.short"
KV_TOKENS = 5_000


def answer(text: str = "hi") -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    return json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage}).encode()


def chunk(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "c", "choices": [choice]}).encode() + b"\n\n"


class ScriptedEngine:
    """Answers with what `reply` or `pieces` give; counts what it was asked and what was aborted."""

    def __init__(self) -> None:
        self.exited = asyncio.Event()
        self.calls: list[EngineCall] = []
        self.aborted = 0
        self.running = 0
        self.reply: Callable[[EngineCall], Awaitable[bytes]] = self._answer
        self.pieces: Callable[[EngineCall], AsyncGenerator[bytes, None]] = self._stream

    async def start(self) -> None:
        self.exited.clear()

    async def stop(self) -> None:
        self.exited.set()

    async def warm_up(self) -> None:
        """Say that all is well."""

    async def gauges(self) -> EngineGauges:
        return EngineGauges(0, 0, kv_capacity_tokens=KV_TOKENS, kv_used_share=0.0, preemptions=0)

    async def generate(self, call: EngineCall) -> bytes:
        self.calls.append(call)
        self.running += 1
        try:
            return await self.reply(call)
        except asyncio.CancelledError:
            self.aborted += 1
            raise
        finally:
            self.running -= 1

    async def stream(self, call: EngineCall) -> AsyncGenerator[bytes, None]:
        self.calls.append(call)
        try:
            async for piece in self.pieces(call):
                yield piece
        except (asyncio.CancelledError, GeneratorExit):
            self.aborted += 1
            raise

    async def forever(self, _call: EngineCall) -> bytes:
        await asyncio.Event().wait()
        raise AssertionError

    def raises(self, error: Exception) -> Callable[[EngineCall], Awaitable[bytes]]:
        async def reply(_call: EngineCall) -> bytes:
            raise error

        return reply

    def says(
        self, *pieces: bytes, then_hangs: bool = False
    ) -> Callable[[EngineCall], AsyncGenerator[bytes, None]]:
        async def stream(call: EngineCall) -> AsyncGenerator[bytes, None]:
            for piece in pieces:
                yield piece
            if then_hangs:
                await self.forever(call)

        return stream

    async def _answer(self, _call: EngineCall) -> bytes:
        return answer()

    async def _stream(self, _call: EngineCall) -> AsyncGenerator[bytes, None]:
        yield chunk("hel")
        yield chunk("lo", finish="stop") + b"data: [DONE]\n\n"


class Hosted:
    """A host, its engine, and how its claims ended."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.broker = broker
        self.engine = ScriptedEngine()
        self.limits = snapshot.limits()
        self.ended: list[Outcome | None] = []
        self.host = EngineHost(
            make_config(folder),
            limits=lambda: self.limits,
            on_credit=lambda: None,
            on_state=lambda: None,
            create=lambda _spec: self.engine,
        )

    def open(self) -> None:
        self.host.start()
        until(lambda: self.host.room.credit().sequences)

    def submit(self, **overrides: Any) -> Claimed:
        """Queue a job, claim it and run it."""
        return self.run(self.claim(self.publish(**overrides)))

    def publish(self, **overrides: Any) -> Job:
        job = factories.make_job(**overrides)
        factories.publish(job)
        return job

    def claim(self, _job: Job | None = None) -> Claimed:
        claimed = factories.claim(self.broker, QUEUE, worker="worker-1@test", lease_seconds=20)
        HELD.add(claimed)
        return claimed

    def run(self, claimed: Claimed) -> Claimed:
        self.host.submit(claimed, lambda outcome, _: self.ended.append(outcome))
        return claimed

    def end(self, count: int = 1) -> Outcome | None:
        """Wait for so many claims to end; returns how the last did."""
        until(lambda: len(self.ended) >= count)
        return self.ended[-1]

    @property
    def leases(self) -> int:
        return self.broker.stats([QUEUE])[0].leases

    @property
    def waiting(self) -> int:
        return self.broker.stats([QUEUE])[0].jobs


def make_config(folder: Path) -> WorkerConfig:
    return WorkerConfig.from_options(
        Options(device="cpu", model=factories.MODEL, engine=EngineKind.SIM, name="worker-1@test"),
        limits=snapshot.limits(),
        paths=Paths(state_dir=folder, models_dir=folder),
        lease_seconds=20.0,
        drain_seconds=5.0,
    )


def row(claimed: Claimed) -> Job:
    return Job.objects.get(id=claimed.token.job_id)


def cancel(job: Job) -> None:
    """As the API does, without the broadcast."""
    lifecycle.apply([lifecycle.Cancel(job.id)])


@pytest.fixture
def hosted(sluice: Broker, valkey: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosted]:
    """A host that is ready."""
    monkeypatch.setattr(settings, "REDIS_URL", valkey)
    monkeypatch.setattr(settings, "BROKER_PREFIX", sluice.prefix)
    monkeypatch.setattr(readiness, "BACKOFF_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(readiness, "SUSPICION_SECONDS", 0.01)
    made = Hosted(sluice, tmp_path)
    made.open()
    yield made
    made.host.stop()
    assert SETTLER.flush(seconds=PATIENCE_SECONDS)
    assert HELD.tokens() == []
