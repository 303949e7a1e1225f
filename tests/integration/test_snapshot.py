"""Limits are live within a second, and outlive a database that is away."""

import logging
import threading

import pytest
from django.db import OperationalError, connection

from inference import models, snapshot
from inference.limits import QueueCaps
from tests.clock import Clock


def test_the_seeded_limits_are_those_of_the_design(db: None) -> None:
    limits = snapshot.limits()

    assert [(t.name, t.weight) for t in limits.tiers.values()] == [
        ("realtime", 400),
        ("standard", 100),
        ("bulk", 1),
    ]
    assert [(c.name, c.max_prompt_tokens) for c in limits.lengths.values()] == [
        ("short", 511),
        ("medium", 2048),
        ("long", None),
    ]
    assert [t.name for t in limits.tiers.values() if t.uses_reserve] == ["realtime"]
    assert [t.max_share for t in limits.tiers.values()] == [1, 1, 0.9]
    assert limits.default_tier == "standard"
    assert limits.models["smollm2-135m-instruct"].max_model_len == 8192


def test_limits_are_read_once_a_second_at_most(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock().replace_in("inference.last_good", monkeypatch)
    first = snapshot.limits()
    models.Tier.objects.filter(name="bulk").update(weight=7)

    clock.seconds += 0.9
    assert snapshot.limits() is first
    clock.seconds += 0.1
    assert snapshot.limits().tiers["bulk"].weight == 7


def test_the_last_good_limits_hold_while_the_database_is_away(
    db: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock().replace_in("inference.last_good", monkeypatch)
    good = snapshot.limits()

    def away() -> None:
        raise OperationalError("away")

    monkeypatch.setattr(snapshot._limits, "_read", away)
    monkeypatch.setattr("inference.last_good.connection.close", lambda: None)
    clock.seconds += 5
    with caplog.at_level(logging.WARNING):
        assert snapshot.limits() is good
    assert caplog.records[0].__dict__["action"] == "limits_kept"


def test_without_a_good_read_ever_the_error_comes_out(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise OperationalError("away")

    monkeypatch.setattr(snapshot._limits, "_read", away)
    with pytest.raises(OperationalError):
        snapshot.limits()


def test_disabled_models_and_explicit_caps_are_seen(db: None) -> None:
    models.ServedModel.objects.create(name="off", source="off", enabled=False)
    models.QueueLimit.objects.create(queue="a.bulk.c", max_jobs=0, max_tokens=5)
    models.Tier.objects.filter(name="bulk").update(max_queued_jobs=7, max_queued_bytes=9)
    limits = snapshot.limits()

    assert "off" not in limits.models
    assert limits.queue_caps("a.bulk.c", "bulk") == QueueCaps(0, 5, 9, is_explicit=True)
    assert limits.queue_caps("x.bulk.z", "bulk") == QueueCaps(7, None, 9)
    assert limits.queue_caps("x.standard.z", "standard") == QueueCaps(10_000)


def test_a_read_is_of_one_moment_and_blocks_no_writer(database: None) -> None:
    inside, written = threading.Event(), threading.Event()

    def write() -> None:
        inside.wait()
        models.Tier.objects.filter(name="bulk").update(weight=9)
        written.set()
        connection.close()

    writer = threading.Thread(target=write)
    writer.start()
    with snapshot._one_moment():
        before = models.Tier.objects.get(name="bulk").weight
        inside.set()
        assert written.wait(10)
        assert models.Tier.objects.get(name="bulk").weight == before
    writer.join()

    assert models.Tier.objects.get(name="bulk").weight == 9


def test_many_threads_share_one_read(database: None, monkeypatch: pytest.MonkeyPatch) -> None:
    Clock().replace_in("inference.last_good", monkeypatch)
    reads = list[threading.Thread]()
    read = snapshot.read

    def noted_read() -> object:
        reads.append(threading.current_thread())
        return read()

    def look() -> None:
        snapshot.limits()
        connection.close()

    monkeypatch.setattr(snapshot._limits, "_read", noted_read)
    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(reads) == 1


def test_who_finds_limits_young_enough_waits_for_no_read(database: None, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock().replace_in("inference.last_good", monkeypatch)
    first = snapshot.limits()
    begun, may_end = threading.Event(), threading.Event()
    read = snapshot.read

    def held_up() -> object:
        begun.set()
        assert may_end.wait(10)
        return read()

    def look_ahead() -> None:
        snapshot.limits(max_age_seconds=0.5)
        connection.close()

    monkeypatch.setattr(snapshot._limits, "_read", held_up)
    clock.seconds += 0.7
    reader = threading.Thread(target=look_ahead)
    reader.start()
    assert begun.wait(10)
    assert snapshot.limits() is first
    assert snapshot.seconds_left() == pytest.approx(0.3)
    may_end.set()
    reader.join()

    assert snapshot.seconds_left() == pytest.approx(1)
    assert snapshot.limits() is not first
