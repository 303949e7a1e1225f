"""The thread that reports a worker goes on whatever it meets."""

import io
import time
from datetime import timedelta
from pathlib import Path

import pytest

from inference import clock, fleet, snapshot
from inference.broker import Broker
from inference.models import Worker, WorkerLimit
from inference.states import WorkerState
from tests import factories
from tests.integration import hosts
from workers import registrar
from workers.registrar import Registrar
from workers.vitals import Condition, Vitals


def test_an_error_does_not_end_the_reports(
    sluice: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registrar, "LIMITS_SECONDS", 0.01)
    monkeypatch.setattr(registrar, "connection", io.BytesIO())  # the test's own stays open
    looks = iter([ValueError("a bug")])

    def vitals() -> Vitals:
        for error in looks:
            raise error
        reports._is_stopping = True
        return Vitals(Condition(WorkerState.READY), slots=4, in_flight=0, kv_used_tokens=0)

    reports = Registrar(hosts.make_config(tmp_path), vitals, on_limits=lambda: None)
    reports._run()
    assert Worker.objects.get().state == WorkerState.READY


def test_the_limits_tell_of_a_worker_that_came(sluice: Broker, tmp_path: Path) -> None:
    vitals = Vitals(Condition(WorkerState.READY), slots=4, in_flight=0, kv_used_tokens=0)
    changes: list[int] = []
    reports = Registrar(hosts.make_config(tmp_path), lambda: vitals, on_limits=lambda: changes.append(1))

    def sizes() -> list[int | None]:
        return [rival.kv_tokens for rival in reports.limits.rivals]

    assert sizes() == []
    fleet.report(factories.make_report(name="worker-2", kv_capacity_tokens=500))
    reports._report_if_due()
    reports._read_limits()
    assert sizes() == [500]
    reports._read_limits()
    assert changes == [1]


@pytest.mark.parametrize(("resumed_seconds_ago", "ready_seconds"), [(None, 100), (500, 100), (30, 30)])
def test_it_is_ready_since_it_loaded_or_was_resumed_by_the_clock_that_all_share(
    sluice: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    resumed_seconds_ago: float | None,
    ready_seconds: float,
) -> None:
    now = clock.now()
    if resumed_seconds_ago is not None:
        resumed_at = now - timedelta(seconds=resumed_seconds_ago)
        WorkerLimit.objects.create(worker="worker-1@test", resumed_at=resumed_at)
    snapshot.forget()
    monkeypatch.setattr("time.time", lambda: now.timestamp() - 3600)
    loaded = Condition(WorkerState.READY, ready_at=time.monotonic() - 100)
    vitals = Vitals(loaded, slots=4, in_flight=0, kv_used_tokens=0)
    reports = Registrar(hosts.make_config(tmp_path), lambda: vitals, on_limits=lambda: None)
    reports._report_if_due()

    row = Worker.objects.get()
    assert row.ready_at is not None
    assert ready_seconds <= (row.heartbeat_at - row.ready_at).total_seconds() < ready_seconds + 20
    assert abs((row.heartbeat_at - now).total_seconds()) < 20
