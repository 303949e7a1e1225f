"""Engines at a URL, and a server there that answers as the test says."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import test_utils, web

from inference.states import EngineKind
from tests import engines as builders
from tests import factories
from workers import engines
from workers.engine import Engine

KEY = "sk-of-the-engine"
NO_PRIORITY = {"error": {"message": "Unknown field: priority"}}

MakeEngine = Callable[..., Engine]
Serve = Callable[..., Awaitable[str]]


@pytest.fixture
async def make_engine() -> AsyncIterator[MakeEngine]:
    """Makes engines that are left at the test's end."""
    made: list[Engine] = []

    def make(url: str, key: str = "") -> Engine:
        made.append(engines.create(builders.make_spec(Path(), kind=EngineKind.EXTERNAL, url=url, key=key)))
        return made[-1]

    yield make
    for engine in made:
        await engine.stop()


class Scripted:
    """A server that answers as the test says, and keeps what it was sent."""

    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.bodies: list[dict[str, Any]] = []
        self.statuses: dict[str, list[int]] = {}
        """By path: those of the next answers; 200 when they are used up."""
        self.refuse: Callable[[web.Request, dict[str, Any]], bool] = lambda _request, _body: False
        self.location = ""
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        """Cleared: a call hangs."""
        self.may_answer.set()

    async def answer(self, request: web.Request) -> web.Response:
        self.requests.append(request)
        self.asked.set()
        pending = self.statuses.get(request.path, [])
        status = pending.pop(0) if pending else 200
        if request.method == "POST":
            self.bodies.append(await request.json())
            await self.may_answer.wait()
            if self.refuse(request, self.bodies[-1]):
                return web.json_response(NO_PRIORITY, status=400)
            return web.json_response(self._chat(), status=status)
        if request.path == "/v1/models":
            return web.json_response({"data": [{"id": factories.MODEL}]}, status=status)
        return web.Response(status=status, headers={"Location": self.location} if self.location else {})

    async def answers(self, count: int) -> None:
        """Wait until it was asked so many times more."""
        wanted = len(self.requests) + count
        while len(self.requests) < wanted:
            self.asked.clear()
            await asyncio.wait_for(self.asked.wait(), builders.DEADLINE_SECONDS)

    @staticmethod
    def _chat() -> dict[str, Any]:
        return {"choices": [{"message": {"content": "Paris."}, "finish_reason": "stop"}], "usage": {}}


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Serves a script; returns its URL."""
    servers: list[test_utils.TestServer] = []

    async def start(scripted: Scripted, tls: ssl.SSLContext | None = None) -> str:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", scripted.answer)
        servers.append(test_utils.TestServer(app, scheme="https" if tls else "http"))
        await servers[-1].start_server(ssl=tls)
        return str(servers[-1].make_url("")).rstrip("/")

    yield start
    for server in servers:
        await server.close()


@pytest.fixture
async def scripted() -> Scripted:
    return Scripted()
