"""What a worker needs of an engine: the protocol, and the values that cross it.

`workers.engines.create` builds the engine of a kind; one contract suite (`tests/engine`) holds all to this page.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from inference.limits import ModelLimits
from inference.states import Endpoint, EngineKind


class EngineGone(Exception):
    """The engine is dead or the connection to it broke: nobody's fault, the job may run again elsewhere."""


class EngineDown(EngineGone):
    """No engine was there to take the job in hand: it did not begin."""


class EngineAway(EngineDown):
    """An engine that is not ours cannot be reached, or lets nobody in: all there is to do is to wait for it."""


@dataclass(eq=False)
class EngineRefused(Exception):
    """The engine answered 4xx: the caller's fault. `body` is the engine's own error envelope."""

    status: int
    body: bytes

    def __str__(self) -> str:
        return f"engine refused the request with status {self.status}"  # the body may quote the prompt


@dataclass(eq=False)
class EngineFault(Exception):
    """The engine lives but answered wrongly: a 5xx, or another answer to the warm-up than the known one."""

    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """All that starting one engine takes."""

    kind: EngineKind
    model: ModelLimits
    device: str
    """`cpu`, or GPUs as in `0` or `0,1` (see `workers.devices`); `external` for an engine elsewhere."""
    socket_path: Path
    """Unix socket that the engine will listen on; its folder is made if missing. At most 100 bytes long.

    An external engine has none.
    """
    log_path: Path | None = None
    """Where the engine's own output goes (appended); None is the worker's stderr."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to the worker's environment and to what the kind and device set; wins over both."""
    models_dir: Path = Path("models")
    """Where a relative `model.source` starts, if it is there; else `source` is a hub name."""
    url: str = ""
    """Of an external engine: what comes before `/v1` (see `workers.engine_url`)."""
    key: str = field(default="", repr=False)
    """Of an external engine; sent to that URL only, never logged."""


@dataclass(frozen=True, slots=True)
class EngineCall:
    """One job as the engine gets it."""

    endpoint: Endpoint
    body: bytes
    """A JSON object. `priority` and `stream` are set by the engine's client and override any in it; for a
    stream's usage chunk the caller puts `stream_options` in."""
    request_id: str
    """Sent as `X-Request-Id`, so that the engine's log names the job."""
    priority: int = 0
    """vLLM's: lower goes first, and is preempted last."""
    prompt_tokens: int | None = None
    """As counted at submission; None: nobody counted. Told to an engine that cannot count itself."""


@dataclass(frozen=True, slots=True)
class EngineGauges:
    """What the engine says of itself. vLLM's numbers follow its steps and may lag by seconds."""

    running: int
    """Sequences in the batch."""
    waiting: int
    """Sequences inside the engine that are not in the batch."""
    kv_capacity_tokens: int
    """Size of the KV cache; constant while the engine lives, 0 if it does not tell."""
    kv_used_share: float
    """0 to 1."""
    preemptions: int
    """Since the engine's start."""
    computed_tokens: int = 0
    """Of prompts and outputs, since the engine's start."""


class Engine(Protocol):
    """One engine, owned by one worker. All methods belong to the event loop that called `start`.

    Start it again after `exited` or `stop`: `start` waits until nothing of the last one is left.
    """

    exited: asyncio.Event
    """Set when the engine and all it started is gone, whether it fell or was stopped; cleared by `start`.

    Of an external engine: when it was found not to answer any more, or was left. One of ours that hangs (healthy,
    and without progress at what it has to do: `workers.progress`) is killed, and so falls too.
    """

    async def start(self) -> None:
        """Start the process and return once `/health` answers. Raises EngineGone if it exits first.

        Has no time limit of its own: cancel it to give up, then `stop`. An external engine is asked once: it
        raises EngineAway if that does not answer as it should.
        """

    async def stop(self) -> None:
        """Kill the engine with all its processes and return when none is left. Harmless if it is gone already.

        Of an external engine only the connections are closed, which aborts what this worker had there.
        """

    async def generate(self, call: EngineCall) -> bytes:
        """Return the whole JSON answer. Cancelling closes the connection, which aborts the sequence.

        Raises EngineRefused (4xx), EngineFault (5xx of a living engine), EngineGone (dead, or connection lost).
        """

    def stream(self, call: EngineCall) -> AsyncGenerator[bytes, None]:
        """Yield the engine's bytes as they arrive; one item may hold several events, or end inside one.

        Closing the generator (`aclose`) or cancelling closes the connection, which aborts the sequence. Raises as
        `generate` does, refusals before the first item. An error that vLLM meets in mid-stream comes as a
        `data: {"error": …}` event, not as an exception.
        """

    async def gauges(self) -> EngineGauges:
        """Read the engine's metrics once. Raises EngineGone."""

    async def warm_up(self) -> None:
        """Ask the model's warm-up question, greedily. Raises EngineFault if the reply lacks the known answer."""
