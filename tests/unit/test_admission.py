"""What a refusal says, what a fleet can hold, and how rates are told."""

from datetime import UTC, datetime
from typing import Any

import pytest

from inference import broker, capacity, routing
from inference.admission import refusals
from inference.admission.terms import Answer, Asked, Reason, Refusal, Usage
from inference.admission.windows import MINUTE, Window
from inference.api.errors import envelope, headers
from inference.capacity import Replica
from inference.limits import KeyLimits, QueueCaps, TenantLimits
from tests import factories

QUEUE = f"{factories.MODEL}.standard.short"


def refusal(reason: Reason, **overrides: Any) -> Refusal:
    values: dict[str, Any] = {"name": QUEUE, "limit": 10, "value": 10, "asked": 1, "retry_ms": 1400}
    return Refusal(reason, **values | overrides)


def test_a_refusal_names_reason_limit_value_and_when_to_come_back() -> None:
    error = refusals.error(refusal(Reason.QUEUE_JOBS), fallback_seconds=9)
    assert (
        error.message
        == f"queue {QUEUE} takes at most 10 waiting jobs; 10 wait or have room kept for them, 1 more asked for"
    )
    assert envelope(error)["error"] | {"message": ""} == {
        "message": "",
        "type": "rate_limit_error",
        "param": None,
        "code": "queue_full",
        "reason": "queue_jobs",
        "limit": 10,
        "current": 10,
        "requested": 1,
    }
    assert (error.status, headers(error)) == (429, {"Retry-After": "2"})


@pytest.mark.parametrize(("retry_ms", "seconds"), [(None, 9), (1, 1), (119_001, 120), (10**7, 120)])
def test_when_to_come_back_is_in_whole_seconds_within_bounds(retry_ms: int | None, seconds: float) -> None:
    assert (
        refusals.error(refusal(Reason.WAIT, retry_ms=retry_ms), fallback_seconds=9).retry_after_seconds == seconds
    )


def test_what_is_more_than_the_limit_by_itself_is_never_to_be_tried_again() -> None:
    error = refusals.error(refusal(Reason.TOKENS_PER_MINUTE, asked=11, retry_ms=None), fallback_seconds=9)
    assert headers(error) == {"x-should-retry": "false"}


def test_waits_are_told_in_seconds() -> None:
    error = refusals.error(refusal(Reason.WAIT, limit=1000, value=90_320), fallback_seconds=9)
    assert (error.details["limit"], error.details["current"]) == (1, 90.32)
    assert "about 90.32 s; its tier takes jobs that wait for 1 s" in error.message


def test_a_budget_is_told_as_people_read_money_and_in_full_beside_it() -> None:
    spent, costs = 1_234_567_891_234, 340_912
    held = refusal(
        Reason.BUDGET, name="tenant=ann", limit=10**12, spent=spent, value=spent + 5 * costs, asked=costs
    )
    error = refusals.over_budget(held, currency="EUR", ends_at=datetime(2026, 12, 1, tzinfo=UTC))
    assert error.message == (
        "tenant ann may spend 1\u202f000.00 EUR a month; 1\u202f234.57 are spent, unfinished jobs are expected to "
        "cost 0.0017 and these 0.00034; the month ends at 2026-12-01T00:00Z"
    )
    assert (error.details["spent"], error.details["requested"]) == ("1234.567891234", "0.000340912")


@pytest.mark.parametrize(("limit", "is_paused"), [(0, False), (10, True)])
def test_who_must_wait_for_an_operator_does_not_come_back_each_second(limit: int, is_paused: bool) -> None:
    error = refusals.error(refusal(Reason.QUEUE_JOBS, limit=limit), fallback_seconds=9, is_paused=is_paused)
    assert headers(error) == {"Retry-After": "30"}


@pytest.mark.parametrize(
    ("reason", "name", "says"),
    [
        (Reason.REQUESTS_PER_MINUTE, "key=sk-abc", "this key may make 10 requests in a minute; 10 were made"),
        (Reason.TOKENS_PER_MINUTE, "tenant=ann", "tenant ann may use 10 tokens in a minute; 10 are used"),
        (Reason.TENANT_QUEUED_JOBS, "ann", "tenant ann may have 10 waiting jobs; 10 wait"),
        (Reason.MODEL_BYTES, "m-1.5.standard.short", "all queues of m-1.5 take at most 10 bytes"),
        (Reason.WAIT, QUEUE, "would wait for about 0.01 s; its tier takes jobs that wait for 0.01 s"),
    ],
)
def test_each_limit_has_its_words(reason: Reason, name: str, says: str) -> None:
    assert says in refusals.error(refusal(reason, name=name), fallback_seconds=1).message


def test_rates_are_told_as_openai_does_and_of_two_the_tighter() -> None:
    asked = Asked(
        tenant="ann",
        owner="key=sk-1",
        key=KeyLimits(requests_per_minute=60, tokens_per_minute=1000),
        limits=TenantLimits(requests_per_minute=10),
        queues=[],
        jobs=[],
    )
    told = refusals.rate_headers(asked, Answer(None, {}, Usage(5, 1200, 61_000), Usage(4, 0, 900)))
    assert told == {
        "x-ratelimit-limit-requests": "10",
        "x-ratelimit-remaining-requests": "6",
        "x-ratelimit-reset-requests": "900ms",
        "x-ratelimit-limit-tokens": "1000",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "1m1s",
    }


def test_a_key_without_limits_is_told_nothing() -> None:
    assert refusals.rate_headers(Asked(tenant="a", owner="key=b", queues=[], jobs=[]), Answer(None)) == {}


def test_no_minute_sees_more_than_what_a_window_counts() -> None:
    window = Window(MINUTE)
    window.add(3, 100, now_ms=999)
    assert window.requests(60_999) == 3  # of the bucket that began at 0, something came 60 s ago
    assert window.requests(61_000) == 0


def test_what_was_used_beyond_the_reserved_counts_from_now_on() -> None:
    window = Window(MINUTE)
    window.add(1, 100, now_ms=0)
    window.correct(0, 100, 130, now_ms=30_000)
    window.correct(0, 100, 60, now_ms=30_000)
    assert [(bucket.at, bucket.tokens) for bucket in window.buckets] == [(0, 60), (30, 30)]


def test_a_clock_set_back_closes_nothing_for_longer_than_a_window() -> None:
    window = Window(MINUTE)
    window.add(1, 1, now_ms=3_600_000)
    assert window.clears_after_ms(0) == 61_000


READY, LOADING = (
    Replica(factories.MODEL, ("*",), 16, is_ready=True),
    Replica(factories.MODEL, ("*",), 0, is_ready=False),
)


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        ([READY, READY], capacity.Fleet(2, 32, is_ready=True)),
        ([LOADING], capacity.Fleet(1, 32, is_ready=False)),
        ([Replica(factories.MODEL, ("*.bulk.*",), 16, is_ready=True)], capacity.Fleet(0, 32, is_ready=False)),
        ([Replica("other", ("*",), 16, is_ready=True)], capacity.Fleet(0, 32, is_ready=False)),
    ],
)
def test_a_fleet_is_who_serves_the_queue(replicas: list[Replica], expected: capacity.Fleet) -> None:
    assert capacity.fleet(factories.make_limits(), QUEUE, replicas) == expected


@pytest.mark.parametrize(
    ("tier", "serve", "slots"),
    [("realtime", "*", 64), ("standard", "*", 61), ("standard", "*.standard.*", 64), ("standard", "*.long", 61)],
)
def test_what_is_kept_for_urgent_tiers_is_no_slot_of_others(tier: str, serve: str, slots: int) -> None:
    tiers = {
        "realtime": factories.make_tier_limits("realtime", weight=400.0, uses_reserve=True),
        "standard": factories.make_tier_limits("standard"),
    }
    replicas = [Replica(factories.MODEL, (serve,), 64, is_ready=True)]
    assert (
        capacity.fleet(factories.make_limits(tiers=tiers), f"{factories.MODEL}.{tier}.long", replicas).slots
        == slots
    )


def test_a_cold_start_may_be_waited_for_and_an_own_cap_asks_for_no_wait() -> None:
    tier, model = factories.make_tier_limits(max_wait_seconds=30.0), factories.make_model_limits()
    cold, warm = (capacity.Fleet(1, 32, is_ready=ready) for ready in (False, True))
    assert capacity.max_wait_seconds(tier, QueueCaps(10), model, warm) == 30
    assert capacity.max_wait_seconds(tier, QueueCaps(10), model, cold) == 150
    assert capacity.max_wait_seconds(tier, QueueCaps(10, is_explicit=True), model, warm) is None


def test_capacity_is_slots_by_rate_by_wait() -> None:
    assert capacity.jobs(64, mean_seconds=2.0, wait_seconds=30.0) == 960


@pytest.mark.parametrize(
    ("caps", "slots"), [((), None), ((None, 64), None), ((None, 9, 4), 4), ((0, None), 1), ((100,), None)]
)
def test_caps_in_flight_leave_a_queue_fewer_slots(caps: tuple[int | None, ...], slots: int | None) -> None:
    assert capacity.own_slots(capacity.Fleet(2, 64, is_ready=True), caps) == slots


def test_bytes_follow_the_engines_unless_an_admin_says() -> None:
    model = factories.make_model_limits(max_model_len=8192, max_num_seqs=32)
    assert (capacity.model_bytes(model, 0), capacity.model_bytes(model, 2)) == (2_097_152, 4_194_304)
    assert capacity.model_bytes(factories.make_model_limits(max_queued_bytes=0), 2) == 0


def test_the_least_urgent_tier_is_refused_first() -> None:
    tiers = [factories.make_tier_limits(name, weight=w) for name, w in (("r", 400.0), ("s", 100.0), ("b", 1.0))]
    assert [capacity.share(tier, tiers, 0.9) for tier in tiers] == pytest.approx([1.0, 0.95, 0.9])
    assert capacity.share(tiers[0], tiers[:1], 0.9) == 1.0


def test_a_job_waits_behind_its_own_tier_and_weightier_ones() -> None:
    tiers = [factories.make_tier_limits(name, weight=w) for name, w in (("r", 400.0), ("s", 100.0), ("b", 1.0))]
    line = capacity.line(routing.QueueName("m", "s", "short"), tiers, ["short", "long"])
    assert line.own == ("m.s.short", "m.s.long")
    assert line.before == (capacity.Weightier(4.0, ("m.r.short", "m.r.long")),)
    assert line.others == ("m.b.short", "m.b.long")


@pytest.mark.parametrize(
    ("seconds", "cap", "most"), [(None, 50, 50), (10, 50, 8), (100, 50, 50), (0.1, 50, 4), (0.1, 2, 2)]
)
def test_what_may_wait_is_the_cap_or_what_starts_in_time_and_no_less_than_runs_at_once(
    seconds: float | None, cap: int, most: int
) -> None:
    waits = broker.QueueStats(QUEUE, jobs=2, tokens=0, oldest_arrival_ms=None, leases=0, work_seconds=10)
    tier = factories.make_tier_limits(max_wait_seconds=seconds, max_queued_jobs=cap)
    limits = factories.make_limits(tiers={"standard": tier})
    assert capacity.most_jobs(limits, waits, [Replica(factories.MODEL, ("*",), 4, is_ready=True)]) == most
