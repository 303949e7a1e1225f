"""What workers say of themselves, and what pages show of it."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError
from django.utils import timezone

from inference import clock, fleet, selectors
from inference.broker import Broker
from inference.limits import Rival
from inference.models import Worker
from inference.states import WorkerState
from tests import factories


def test_a_report_makes_a_row_and_the_next_one_changes_it(db: None) -> None:
    fleet.report(factories.make_report(state=WorkerState.LOADING, ready_at=None, serve=("*.bulk.*",)))
    fleet.report(factories.make_report(state=WorkerState.READY, in_flight=3))
    worker = Worker.objects.get()

    assert (worker.name, worker.state, worker.in_flight, worker.serve) == ("worker-1", "ready", 3, ["*"])
    assert worker.ready_at is not None


def test_a_long_detail_is_cut(db: None) -> None:
    fleet.report(factories.make_report(state_detail="x" * 1000))

    assert len(Worker.objects.get().state_detail) == 255


def test_a_report_is_kept_whatever_machine_and_engine_are_called(database: None) -> None:
    gpus = ",".join(map(str, range(64)))
    fleet.report(factories.make_report(state_detail="a\0b \ud83d", device=gpus, host="h" * 300))

    worker = Worker.objects.get()
    assert worker.state_detail == "a\ufffdb \ufffd"
    assert (worker.device, worker.host) == (gpus[:64], "h" * 255)


def test_a_report_for_a_model_that_is_gone_is_refused_by_the_database(database: None) -> None:
    with pytest.raises(IntegrityError):
        fleet.report(factories.make_report(model="gone"))


def test_a_model_is_ready_since_its_longest_ready_worker(db: None) -> None:
    now = timezone.now()
    for minutes in (3, 7):
        ready_at = now - timedelta(minutes=minutes)
        fleet.report(factories.make_report(name=f"worker-{minutes}", ready_at=ready_at))

    assert fleet.ready_since(factories.MODEL, now=now) == now - timedelta(minutes=7)
    assert fleet.ready_since("another", now=now) is None


@pytest.mark.parametrize("state", sorted(set(WorkerState) - {WorkerState.READY}))
def test_a_model_whose_workers_are_not_ready_is_not_ready(db: None, state: WorkerState) -> None:
    fleet.report(factories.make_report(state=state))

    assert fleet.ready_since(factories.MODEL, now=timezone.now()) is None


def test_a_worker_not_heard_for_a_lease_is_shown_as_stale(db: None) -> None:
    now = timezone.now()
    fleet.report(factories.make_report(name="a-silent"), now=now - timedelta(seconds=21))
    fleet.report(factories.make_report(name="b-heard"), now=now - timedelta(seconds=10))
    silent, heard = selectors.worker_rows()

    assert (silent.name, silent.stale) == ("a-silent", True)
    assert (heard.name, heard.stale, heard.state, heard.serve) == ("b-heard", False, WorkerState.READY, ("*",))


def test_a_worker_knows_its_rivals_but_those_that_are_silent_or_at_their_end(sluice: Broker) -> None:
    now = clock.now()
    others: dict[str, dict[str, Any]] = {
        "b": {"kv_capacity_tokens": 500, "serve": ("*.long",)},
        "a": {"state": WorkerState.LOADING, "kv_capacity_tokens": 0},
        "draining": {"state": WorkerState.DRAINING},
        "failed": {"state": WorkerState.FAILED},
        "me": {},
    }
    for name, overrides in others.items():
        fleet.report(factories.make_report(name=name, **overrides), now=now)
    fleet.report(factories.make_report(name="silent"), now=now - timedelta(seconds=21))

    assert fleet.rivals(factories.MODEL, but="me") == (
        Rival(factories.MODEL, ("*",), None),
        Rival(factories.MODEL, ("*.long",), 500),
    )
    assert fleet.rivals("another", but="me") == ()
