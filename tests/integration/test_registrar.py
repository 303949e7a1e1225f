"""The thread that reports a worker goes on whatever it meets."""

import io
from pathlib import Path

import pytest

from inference.broker import Broker
from inference.models import Worker
from inference.states import WorkerState
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
