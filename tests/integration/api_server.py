"""A real server on a port of its own, and a worker whose every step the test decides."""

import asyncio
import contextlib
import dataclasses
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any, Self

import httpx
import orjson
import uvicorn
from django.db import connection

from inference import broker as broker_module
from inference import lifecycle
from inference.broker import Broker, Claimed, ClaimRequest, Credit
from inference.models import Job
from inference.states import FailureReason, ReleaseReason
from tests import factories, waiting


class Api:
    """The server under test and a key for it."""

    def __init__(self, port: int, key: str) -> None:
        self.port = port
        self.key = key
        self.url = f"http://127.0.0.1:{port}"
        self.client = httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {key}"}, timeout=30)

    def post(self, path: str, json: Any = None, **options: Any) -> httpx.Response:
        """Send JSON with the key."""
        return self.client.post(path, json=json, **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        """Read with the key."""
        return self.client.get(path, **options)

    def connect(self, path: str, body: Any, *, left_out: int = 0) -> socket.socket:
        """Send a POST, its last bytes left out, over a plain socket and leave the answer unread."""
        content = orjson.dumps(body)
        head = (
            f"POST {path} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {self.key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=waiting.PATIENCE_SECONDS)
        connection.sendall(head.encode() + content[: len(content) - left_out])
        return connection


@contextlib.contextmanager
def serve() -> Iterator[int]:
    """Run the web process in a thread and yield its port."""
    from project.asgi import application  # noqa: PLC0415 - sets Django up, which a test run has done by now

    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    config = uvicorn.Config(
        application,
        loop="uvloop",
        http="httptools",
        lifespan="on",
        access_log=False,
        log_config=None,
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    waiting.until(lambda: server.started)
    yield int(listener.getsockname()[1])
    server.should_exit = True
    thread.join(timeout=waiting.PATIENCE_SECONDS)
    listener.close()
    assert not thread.is_alive()


class Hand:
    """A worker moved by hand: real claims, commits, appends and acks, and nothing in between."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._runner = asyncio.Runner()
        self._appender = self._run(_async_broker())

    def claim(self) -> Claimed:
        """Claim the next job, start it, and return the claim."""
        [claimed] = waiting.until(self.claim_now)
        self.start(claimed)
        return claimed

    def start(self, claimed: Claimed) -> None:
        """Commit the start."""
        applied = lifecycle.apply([lifecycle.Start(claimed.token, "worker-1")])
        assert applied[0].moved

    def say(self, claimed: Claimed, *chunks: bytes, kind: str = "chunk") -> bool:
        """Append output."""
        return bool(self._run(self._appender.append(claimed.token, chunks, kind=kind)))

    def succeed(self, claimed: Claimed, result: Any) -> None:
        """Commit the answer and acknowledge."""
        success = factories.make_success(claimed.token, result=orjson.dumps(result).decode())
        self._settle(claimed, success, "succeeded")

    def fail(self, claimed: Claimed, reason: FailureReason, message: str) -> None:
        """Commit the failure and acknowledge."""
        self._settle(claimed, lifecycle.Fail(claimed.token, reason, message), "failed")

    def release(self, claimed: Claimed, reason: ReleaseReason = ReleaseReason.ENGINE_CRASH) -> None:
        """Give the job back."""
        assert lifecycle.apply([lifecycle.Release(claimed.token, reason)])[0].moved
        assert self.broker.release(claimed.token)

    def close(self) -> None:
        """Close the connections."""
        self._run(self._appender.close())
        self._runner.close()

    def _settle(self, claimed: Claimed, change: lifecycle.Change, status: str) -> None:
        assert lifecycle.apply([change])[0].moved
        self.broker.ack(claimed.token, status=status)

    def claim_now(self) -> list[Claimed]:
        """Claim and do not start; empty if nothing waits."""
        credit = Credit(sequences=1, kv_tokens=100_000)
        return self.broker.claim(
            ClaimRequest(tuple(QUEUES), credit=credit, limit=1, worker="worker-1", lease_seconds=30)
        ).jobs

    def _run(self, coroutine: Any) -> Any:
        return self._runner.run(coroutine)


QUEUES = [
    f"{factories.MODEL}.{tier}.{length}"
    for tier in ("realtime", "standard", "bulk")
    for length in ("short", "medium", "long")
]


async def _async_broker() -> broker_module.AsyncBroker:
    return broker_module.new_async_broker()


def echo_jobs(hand: Hand, stop: threading.Event) -> None:
    while not stop.is_set():
        for claimed in hand.claim_now():
            hand.start(claimed)
            job = Job.objects.get(id=claimed.token.job_id)
            answer = Answer.to(job)
            if claimed.streamed:
                hand.say(claimed, *answer.chunks())
                hand.say(claimed, b"", kind="end")
            hand.succeed(claimed, answer.whole())
        time.sleep(0.002)  # the pace of the loop, not a wait for a fact
    connection.close()


@dataclasses.dataclass(frozen=True)
class Answer:
    """What an engine would say."""

    id: str
    model: str
    words: list[str]
    is_chat: bool

    @classmethod
    def to(cls, job: Job) -> Self:
        """Repeat what was asked."""
        body = orjson.loads(job.request)
        is_chat = job.endpoint == "chat/completions"
        text = body["messages"][-1]["content"] if is_chat else body["prompt"]
        return cls(str(job.id), job.model_id, str(text).split(), is_chat)

    def chunks(self) -> list[bytes]:
        """As server-sent events."""
        deltas = [self._event(f"{word} ", None) for word in self.words]
        return [*deltas, self._event("", "stop"), b"data: [DONE]\n\n"]

    def whole(self) -> dict[str, Any]:
        """As one object."""
        text = " ".join(self.words)
        choice: dict[str, Any] = {"index": 0, "finish_reason": "stop", "logprobs": None}
        choice |= {"message": {"role": "assistant", "content": text}} if self.is_chat else {"text": text}
        usage = {"prompt_tokens": 3, "completion_tokens": len(self.words), "total_tokens": 3 + len(self.words)}
        kind = "chat.completion" if self.is_chat else "text_completion"
        return self._object(kind, choice) | {"usage": usage, "service_tier": None}

    def _event(self, text: str, finish_reason: str | None) -> bytes:
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish_reason}
        choice |= {"delta": {"content": text}} if self.is_chat else {"text": text}
        kind = "chat.completion.chunk" if self.is_chat else "text_completion"
        return b"data: " + orjson.dumps(self._object(kind, choice)) + b"\n\n"

    def _object(self, kind: str, choice: dict[str, Any]) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": 1, "model": self.model, "choices": [choice]}


def read_until(connection: socket.socket, wanted: bytes) -> bytes:
    """Read an answer up to and with `wanted`."""
    received = b""
    while wanted not in received:
        data = connection.recv(65536)
        assert data, received
        received += data
    return received


class BackgroundCall:
    """A chat sent in a thread, whose answer is there when the block around it ends."""

    def __init__(self, api: Api, body: Any) -> None:
        self.received = b""
        self._api = api
        self._body = body
        self._response: httpx.Response | None = None
        self._thread = threading.Thread(target=self._send)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(timeout=waiting.PATIENCE_SECONDS)
        assert not self._thread.is_alive(), self.received

    @property
    def response(self) -> httpx.Response:
        """The whole answer."""
        assert self._response is not None
        return self._response

    def wait_for(self, part: bytes) -> None:
        """Return once the client has read so far."""
        waiting.until(lambda: part in self.received)

    def _send(self) -> None:
        with self._api.client.stream("POST", "/v1/chat/completions", json=self._body) as response:
            for data in response.iter_raw():
                self.received += data
        response._content = self.received
        self._response = response


def in_background(api: Api, **fields: Any) -> BackgroundCall:
    """Send a chat and go on."""
    return BackgroundCall(api, factories.make_chat(**fields))


def forget_everything(broker: Broker) -> None:
    """Wipe what Redis knows of this test."""
    pattern = broker.prefix.replace("{", "\\{") + "*"
    keys = list(broker.client.scan_iter(match=pattern, count=1000))
    if keys:
        broker.client.delete(*keys)


def without_mailbox(claimed: Claimed) -> Claimed:
    """The claim as a worker knows it to whom nobody said who waits."""
    return dataclasses.replace(claimed, mailbox="")
