"""An engine at a URL: found, lost and found again, and what is asked of it and shown to it."""

import asyncio
import datetime
import ipaddress
import json
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import test_utils, web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from inference.states import EngineKind
from tests import engines as builders
from tests import factories
from workers import engines, external_engine
from workers.engine import Engine, EngineAway, EngineFault, EngineGone, EngineRefused

KEY = "sk-of-the-engine"
LONG: dict[str, Any] = {"max_tokens": 8000, "ignore_eos": True}
NO_PRIORITY = {"error": {"message": "Unknown field: priority"}}

MakeEngine = Callable[..., Engine]


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


@pytest.fixture
def sim() -> Iterator[builders.TcpSim]:
    with builders.tcp_sim() as sim:
        yield sim


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
async def serve() -> AsyncIterator[Callable[..., Awaitable[str]]]:
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
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines are probed all the time."""
    monkeypatch.setattr(external_engine, "PROBE_SECONDS", 0.01)
    monkeypatch.setattr(external_engine, "RETRY_SECONDS", 0.01)


@pytest.fixture
async def scripted() -> Scripted:
    return Scripted()


Serve = Callable[..., Awaitable[str]]


# There or not


async def test_an_engine_that_is_not_there_is_away_and_is_found_when_it_comes(make_engine: MakeEngine) -> None:
    sim = builders.TcpSim()
    engine = make_engine(sim.url)
    with pytest.raises(EngineAway, match="cannot be reached"):
        await engine.start()
    assert engine.exited.is_set()

    sim.start("--load-seconds", "0.3")
    try:
        await builders.start_when_there(engine)
        await engine.warm_up()
    finally:
        sim.kill()


@pytest.mark.parametrize(
    "greeting", [b"SSH-2.0-OpenSSH_9.2\r\n", b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"]
)
async def test_what_does_not_speak_http_is_no_engine(make_engine: MakeEngine, greeting: bytes) -> None:
    async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1")
    async with server:
        with pytest.raises(EngineAway, match="cannot be reached"):
            await make_engine(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}").start()


async def test_what_runs_when_it_dies_is_nobodys_fault_and_it_is_found_again(
    make_engine: MakeEngine, sim: builders.TcpSim
) -> None:
    engine = make_engine(sim.url)
    await builders.start_when_there(engine)
    running = asyncio.create_task(engine.generate(builders.make_chat_call(**LONG)))
    await builders.until_gauges(engine, lambda gauges: gauges.running == 1)

    sim.kill()

    with pytest.raises(EngineGone) as lost:
        await running
    assert not isinstance(lost.value, EngineAway), "it had begun"
    with pytest.raises(EngineAway):
        await engine.generate(builders.make_chat_call())
    # Well below the time between two probes: the lost call had it asked at once.
    await asyncio.wait_for(engine.exited.wait(), external_engine.PROBE_SECONDS - 1)
    with pytest.raises(EngineAway):
        await engine.generate(builders.make_chat_call())

    sim.start()
    await builders.start_when_there(engine)
    await engine.warm_up()


async def test_what_runs_when_it_is_left_is_nobodys_fault(make_engine: MakeEngine, sim: builders.TcpSim) -> None:
    engine = make_engine(sim.url)
    await builders.start_when_there(engine)
    running = asyncio.create_task(engine.generate(builders.make_chat_call(**LONG)))
    await builders.until_gauges(engine, lambda gauges: gauges.running == 1)

    await engine.stop()

    with pytest.raises(EngineGone):
        await running
    await builders.start_when_there(engine)
    await builders.until_gauges(engine, lambda gauges: gauges.running == 0)


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize(("lost", "is_away"), [(1, False), (2, True)])
async def test_one_lost_answer_is_forgiven_and_a_second_one_is_not(
    make_engine: MakeEngine, serve: Serve, scripted: Scripted, lost: int, is_away: bool
) -> None:
    engine = make_engine(await serve(scripted))
    await engine.start()

    scripted.statuses["/health"] = [503] * lost

    if is_away:
        await asyncio.wait_for(engine.exited.wait(), builders.DEADLINE_SECONDS)
    else:
        await scripted.answers(6)
        assert not engine.exited.is_set()


async def test_a_call_that_hangs_ends_when_the_engine_is_found_gone(
    make_engine: MakeEngine, serve: Serve, scripted: Scripted, often: None
) -> None:
    engine = make_engine(await serve(scripted))
    await engine.start()
    scripted.may_answer.clear()
    running = asyncio.create_task(engine.generate(builders.make_chat_call()))
    await builders.until(lambda: _true(scripted.bodies))

    scripted.statuses["/health"] = [503, 503]

    with pytest.raises(EngineGone):
        await running


async def _true(value: object) -> bool:
    return bool(value)


# What it is asked, and shown


async def test_the_key_opens_an_engine_that_asks_for_one(make_engine: MakeEngine) -> None:
    with builders.tcp_sim(key=KEY) as sim:
        engine = make_engine(sim.url, KEY)
        await builders.start_when_there(engine)
        await engine.warm_up()


@pytest.mark.parametrize("key", ["", "sk-wrong"])
async def test_a_wrong_key_is_told_and_not_shown(
    make_engine: MakeEngine, serve: Serve, scripted: Scripted, caplog: pytest.LogCaptureFixture, key: str
) -> None:
    caplog.set_level(logging.DEBUG)
    scripted.statuses["/v1/models"] = [401]
    engine = make_engine(await serve(scripted), key)

    with pytest.raises(EngineAway, match=r"refuses the key with status 401: SLUICE_ENGINE_KEY") as refused:
        await engine.start()

    assert "sk-wrong" not in str(refused.value) + caplog.text + repr(engine) + repr(vars(engine))
    assert scripted.requests[-1].headers.get("Authorization") == (f"Bearer {key}" if key else None)


async def test_a_key_that_is_withdrawn_sends_jobs_back_uncounted(
    make_engine: MakeEngine, serve: Serve, scripted: Scripted
) -> None:
    engine = make_engine(await serve(scripted), KEY)
    await engine.start()
    scripted.statuses = {"/v1/chat/completions": [401], "/v1/models": [401, 401, 401]}

    with pytest.raises(EngineAway, match="refuses the key"):
        await engine.generate(builders.make_chat_call())


async def test_no_redirect_is_followed_so_no_other_sees_the_key(
    make_engine: MakeEngine, serve: Serve, scripted: Scripted
) -> None:
    other = Scripted()
    scripted.location = f"{await serve(other)}/health"
    engine = make_engine(await serve(scripted), KEY)
    scripted.statuses["/health"] = [307]
    with pytest.raises(EngineAway, match=r"redirects /health with status 307.*--engine-url"):
        await engine.start()

    await engine.start()
    scripted.statuses = {"/v1/chat/completions": [307], "/metrics": [307]}
    with pytest.raises(EngineFault):
        await engine.generate(builders.make_chat_call())
    await engine.gauges()

    assert other.requests == []


async def test_an_engine_without_the_model_names_those_it_has(make_engine: MakeEngine) -> None:
    with builders.tcp_sim("--model", "other/model") as sim:
        engine = make_engine(sim.url)
        await builders.until(lambda: _says(engine, "other/model"))


async def _says(engine: Engine, words: str) -> bool:
    with pytest.raises(EngineAway) as away:
        await engine.start()
    return words in str(away.value)


@pytest.mark.parametrize("lacks", ["/health", "/v1/models"])
async def test_an_engine_may_lack_a_page_and_metrics(
    make_engine: MakeEngine, serve: Serve, scripted: Scripted, lacks: str
) -> None:
    scripted.statuses = {lacks: [404] * 10, "/metrics": [404]}
    engine = make_engine(await serve(scripted))

    await engine.start()
    await engine.warm_up()

    assert (await engine.gauges()).kv_capacity_tokens == 0


async def test_a_url_with_neither_page_is_not_an_engines(
    make_engine: MakeEngine, serve: Serve, scripted: Scripted
) -> None:
    scripted.statuses = {"/health": [404], "/v1/models": [404]}
    with pytest.raises(EngineAway, match="is the URL right"):
        await make_engine(await serve(scripted)).start()


async def test_an_engine_that_refuses_priority_does_without_from_its_warm_up_on(make_engine: MakeEngine) -> None:
    with builders.tcp_sim("--refuses", "priority") as sim:
        engine = make_engine(sim.url)
        await builders.start_when_there(engine)
        await engine.warm_up()

        reply = await engine.generate(builders.make_chat_call(max_tokens=1, priority=2))

    assert json.loads(reply)["id"] == "chatcmpl-test", "the job's id is sent all the same"


async def test_an_engine_that_refuses_the_jobs_id_as_well_gets_neither(
    make_engine: MakeEngine, serve: Serve, scripted: Scripted
) -> None:
    scripted.refuse = lambda request, body: "priority" in body or "X-Request-Id" in request.headers
    engine = make_engine(await serve(scripted))
    await engine.start()
    await engine.warm_up()
    tries = len(scripted.bodies)

    await engine.generate(builders.make_chat_call())

    assert tries == 3
    assert len(scripted.bodies) == tries + 1, "found out once, not for each job"


async def test_a_refused_warm_up_says_what_the_engine_says(
    make_engine: MakeEngine, serve: Serve, scripted: Scripted
) -> None:
    scripted.refuse = lambda *_: True
    engine = make_engine(await serve(scripted))
    await engine.start()
    with pytest.raises(EngineFault, match=r"status 400: .*Unknown field"):
        await engine.warm_up()


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, EngineRefused), (403, EngineRefused), (429, EngineGone), (503, EngineGone), (500, EngineFault)],
)
async def test_an_engine_that_is_there_is_believed(
    make_engine: MakeEngine, serve: Serve, scripted: Scripted, status: int, error: type[Exception]
) -> None:
    engine = make_engine(await serve(scripted))
    await engine.start()
    scripted.statuses["/v1/chat/completions"] = [status]
    with pytest.raises(error) as raised:
        await engine.generate(builders.make_chat_call())
    assert not isinstance(raised.value, EngineAway)


# TLS


async def test_over_tls_only_a_trusted_engine_is_believed(
    make_engine: MakeEngine, serve: Serve, scripted: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, tls = _self_signed(tmp_path)
    url = await serve(scripted, tls)
    with pytest.raises(EngineAway, match="certificate"):
        await make_engine(url, KEY).start()
    assert scripted.requests == []

    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    await make_engine(url, KEY).start()


def _self_signed(folder: Path) -> tuple[Path, ssl.SSLContext]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "engine")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(
        now + datetime.timedelta(1)
    )
    signed = builder.add_extension(address, critical=False).sign(key, hashes.SHA256())
    path = folder / "engine.pem"
    path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    private = folder / "engine.key"
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(path, private)
    return path, context
