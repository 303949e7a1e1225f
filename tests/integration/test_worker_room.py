"""Worker processes give the engine's room on at once, and yet the engine never has more than it takes."""

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.db import connection, transaction

from inference.broker import Broker
from inference.models import Job, ServedModel
from inference.states import JobStatus
from tests import factories
from tests.integration import worker_processes
from tests.integration.worker_processes import SLOW, Fleet, all_are, ask, queue, running, submit
from tests.waiting import until

fleet = worker_processes.fleet
SLOTS = 2
ANSWER = b'{"choices": [{"message": {"content": "Paris."}, "finish_reason": "stop"}], "usage": {}}'
MODELS = b'{"data": [{"id": "%b"}]}' % factories.MODEL.encode()


class CountingEngine(ThreadingHTTPServer):
    """An engine at a URL that counts what is in it, and lets one out when it is told."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.inside = self.most = self.ended = 0
        self.is_open = True
        """Whether calls are answered at once: those of the warm-up."""
        self._change = threading.Condition()
        self._may_leave = 0

    def let_one_out(self) -> None:
        with self._change:
            self._may_leave += 1
            self._change.notify_all()

    def stay(self) -> None:
        """Stay in the engine until let out."""
        with self._change:
            self.inside += 1
            self.most = max(self.most, self.inside)
            self._change.wait_for(lambda: self.is_open or self._may_leave, 60)
            self._may_leave -= 0 if self.is_open else 1
            self.inside -= 1
            self.ended += 1


class _Handler(BaseHTTPRequestHandler):
    server: CountingEngine
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._say(MODELS)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.stay()
        self._say(ANSWER)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _say(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def engine() -> Iterator[CountingEngine]:
    with CountingEngine() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.is_open = True
        made.let_one_out()
        made.shutdown()
        thread.join()


@pytest.fixture
def two_slots(database: None) -> None:
    ServedModel.objects.update(max_num_seqs=SLOTS)


@pytest.mark.usefixtures("two_slots")
def test_the_engine_never_has_more_than_it_takes_though_each_end_makes_room_at_once(
    fleet: Fleet, sluice: Broker, engine: CountingEngine
) -> None:
    url = f"http://127.0.0.1:{engine.server_port}/v1"
    fleet.ready("worker-1", "--device", "external", "--engine", "external", "--engine-url", url)
    engine.is_open, engine.most, engine.ended = False, 0, 0
    ids = submit(20)
    for ended in range(1, len(ids) + 1):
        until(lambda ended=ended: engine.inside == min(SLOTS, len(ids) - ended + 1))  # type: ignore[misc]
        engine.let_one_out()
        until(lambda ended=ended: engine.ended == ended)  # type: ignore[misc]
    all_are(ids, JobStatus.SUCCEEDED)
    assert engine.most == SLOTS
    worker_processes.nothing_is_held(sluice)


@contextlib.contextmanager
def nobody_writes() -> Iterator[None]:
    """Hold what every commit needs."""
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute(f"LOCK TABLE {Job._meta.db_table} IN EXCLUSIVE MODE")
        yield


@pytest.mark.usefixtures("two_slots")
def test_while_the_database_takes_no_writes_a_worker_holds_two_engines_full_at_most(
    fleet: Fleet, sluice: Broker
) -> None:
    worker = fleet.ready(sim=SLOW)
    ids = submit(SLOTS, output_tokens=80) + submit(8, output_tokens=4)
    until(lambda: running(ids) == SLOTS)
    with nobody_writes():
        until(lambda: queue(sluice).leases == 2 * SLOTS)
        state = ask(fleet, "engine_state")[worker.name]
        assert (state["in_flight"], queue(sluice).leases, running(ids)) == (SLOTS, 2 * SLOTS, SLOTS)
    all_are(ids, JobStatus.SUCCEEDED)
    worker_processes.nothing_is_held(sluice)
