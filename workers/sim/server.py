"""The simulated engine's HTTP server and its one clock."""

import asyncio
import contextlib
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator

from aiohttp import web

from workers.sim import request as requests
from workers.sim import wire
from workers.sim.config import Address, SimConfig
from workers.sim.scheduler import Scheduler, Sequence, Step
from workers.sim.waits import Waits

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_CRASH_STATUS = 139
"""As a shell tells of a process that a segmentation fault ended."""
_MAX_BODY_BYTES = 64 * 1024 * 1024


class Clock:
    """Steps the scheduler in time: one timer for all sequences, none while there is nothing to do."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._loop = asyncio.get_running_loop()
        self._due = 0.0
        self._is_running = False
        self.is_hung = False
        """Begins no step any more."""
        self._listeners: dict[Sequence, tuple[asyncio.Event, bool]] = {}
        self._waiting: dict[Sequence, float] = {}
        """Not begun, and since when."""
        self.waits = Waits()
        """Of those that began."""

    @contextlib.contextmanager
    def running(self, sequence: Sequence, *, every_token: bool) -> Iterator[asyncio.Event]:
        """Have `sequence` run; the event is set at its end, or at every token. Leaving early aborts it."""
        progress = asyncio.Event()
        self._listeners[sequence] = (progress, every_token)
        self._scheduler.add(sequence)
        self._waiting[sequence] = self._loop.time()
        if not self._is_running:
            self._is_running, self._due = True, self._loop.time()
            self._begin()
        try:
            yield progress
        finally:
            del self._listeners[sequence]
            self._waiting.pop(sequence, None)
            if not sequence.is_done:
                self._scheduler.remove(sequence)

    def _begin(self) -> None:
        step = None if self.is_hung else self._scheduler.plan()
        self._is_running = step is not None
        if step:
            self._note_begun(step)
            # From when the last step was due, not from now: the simulated device is no slower on a busy machine.
            self._due += step.seconds
            self._loop.call_at(self._due, self._end, step)

    def _note_begun(self, step: Step) -> None:
        for sequence in [each for each, _ in step.work if each in self._waiting]:
            self.waits.add(self._loop.time() - self._waiting.pop(sequence))

    def _end(self, step: Step) -> None:
        for sequence in self._scheduler.commit(step):
            progress, every_token = self._listeners[sequence]
            if every_token or sequence.is_done:
                progress.set()
        self._begin()


class Server:
    """The handlers."""

    def __init__(self, config: SimConfig) -> None:
        self._config = config
        self._scheduler = Scheduler(config)
        self._clock = Clock(self._scheduler)

    def app(self) -> web.Application:
        """Return the routes, which vLLM has too."""
        app = web.Application(client_max_size=_MAX_BODY_BYTES, middlewares=[self._check_key])
        app.router.add_get("/health", self.health)
        app.router.add_get("/metrics", self.metrics)
        app.router.add_get("/v1/models", self.models)
        app.router.add_post("/v1/chat/completions", self.chat)
        app.router.add_post("/v1/completions", self.completions)
        return app

    @web.middleware
    async def _check_key(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Ask for the key below `/v1/` only, as vLLM does."""
        given = request.headers.get("Authorization", "").encode()
        wanted = f"Bearer {self._config.key}".encode()
        if self._config.key and request.path.startswith("/v1/") and not secrets.compare_digest(given, wanted):
            return web.json_response({"error": "Unauthorized"}, status=401)
        return await handler(request)

    async def health(self, _request: web.Request) -> web.Response:
        """Answer at all: the socket opens only when the model is loaded."""
        return web.Response()

    async def metrics(self, _request: web.Request) -> web.Response:
        """Show the gauges."""
        page = wire.metrics(self._scheduler, self._clock.waits, model=self._config.model)
        return web.Response(text=page)

    async def models(self, _request: web.Request) -> web.Response:
        """Name the one model."""
        model = {"id": self._config.model, "object": "model", "max_model_len": self._config.max_model_len}
        return web.json_response({"object": "list", "data": [model]})

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Answer a chat."""
        return await self._answer(request, is_chat=True)

    async def completions(self, request: web.Request) -> web.StreamResponse:
        """Go on with a text."""
        return await self._answer(request, is_chat=False)

    async def _answer(self, request: web.Request, *, is_chat: bool) -> web.StreamResponse:
        try:
            told = request.headers.get("X-Prompt-Tokens", "")
            asked = requests.parse(self._config, await request.read(), is_chat=is_chat, told_tokens=told)
        except requests.Refused as error:
            return web.Response(status=error.status, body=error.envelope(), content_type="application/json")
        name = request.headers.get("X-Request-Id", "sim")
        writer = wire.Writer(asked, model=self._config.model, request_id=name, now=int(time.time()))
        sequence = Sequence(asked.prompt_tokens, len(asked.reply), asked.priority)
        self._suffer(asked.fault)
        with self._clock.running(sequence, every_token=asked.stream) as progress:
            if asked.stream:
                return await _stream(request, writer, sequence, progress)
            await progress.wait()
            return web.Response(body=writer.whole(), content_type="application/json")

    def _suffer(self, fault: requests.Fault | None) -> None:
        """Let the request do to the engine what it was told to."""
        if fault is requests.Fault.CRASH:
            os._exit(_CRASH_STATUS)
        self._clock.is_hung |= fault is requests.Fault.HANG


async def _stream(
    request: web.Request, writer: wire.Writer, sequence: Sequence, progress: asyncio.Event
) -> web.StreamResponse:
    """Write each token when it is there."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    pending, sent = writer.opening(), 0
    while not sequence.is_done:
        await progress.wait()
        progress.clear()
        pending, sent = pending + writer.tokens(sent, sequence.produced), sequence.produced
        await response.write(pending + writer.closing() if sequence.is_done else pending)
        pending = b""
    return response


async def serve(address: Address, config: SimConfig) -> None:
    """Load, then serve at the address until cancelled."""
    await asyncio.sleep(config.load_seconds)
    # Without handler_cancellation a client that goes would not end its sequence.
    runner = web.AppRunner(Server(config).app(), handler_cancellation=True, access_log=None)
    await runner.setup()
    await _site(runner, address).start()
    await asyncio.Event().wait()


def _site(runner: web.AppRunner, address: Address) -> web.BaseSite:
    return web.UnixSite(runner, address.uds) if address.uds else web.TCPSite(runner, address.host, address.port)
