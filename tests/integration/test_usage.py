"""What commits add to the sums of usage, and that these are the jobs' own."""

import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import Sum
from hypothesis import given, settings
from hypothesis import strategies as st

from inference import lifecycle, snapshot
from inference.broker import Token
from inference.lifecycle import statements
from inference.models import Job, JobEvent, Price, Usage
from inference.states import TERMINAL, FailureReason, JobStatus, ReleaseReason
from tests import factories

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
SUMS = ("jobs", "prompt_tokens", "output_tokens", "engine_ms", "cost_nano")


def make_price(**overrides: Any) -> Price:
    """A price of the default model in all tiers, long valid."""
    values: dict[str, Any] = {
        "model_id": factories.MODEL,
        "prompt_per_million": Decimal("0.150"),
        "output_per_million": Decimal("0.600"),
        "per_engine_second": Decimal("0.000125"),
        "valid_from": NOON - timedelta(days=100),
    }
    snapshot.forget()
    return Price.objects.create(**values | overrides)


def sums(**wanted: Any) -> tuple[int, ...]:
    """Jobs, prompt and output tokens, milliseconds and cost of the rows."""
    found = Usage.objects.filter(**wanted).aggregate(**{f"all_{name}": Sum(name) for name in SUMS})
    return tuple(found[f"all_{name}"] or 0 for name in SUMS)


def finish(now: datetime = NOON, **job: Any) -> Token:
    """A job of ten tokens that brings seven in a second and a half."""
    _, token = factories.make_running_job(**job)
    lifecycle.apply([factories.make_success(token, engine_seconds=1.5)], now=now)
    return token


def test_a_finish_is_booked_with_its_tokens_time_and_cost(db: None) -> None:
    make_price()
    token = finish()

    cost = 10 * 150 + 7 * 600 + 1500 * 125
    assert sums() == (1, 10, 7, 1500, cost)
    row = Usage.objects.get()
    assert (row.day, row.tenant, row.api_key, row.model, row.tier) == (
        *(NOON.date(), "default", "", factories.MODEL, "standard"),
    )
    job = Job.objects.get(id=token.job_id)
    assert (job.used_prompt_tokens, job.used_output_tokens, job.engine_ms, job.cost_nano) == (10, 7, 1500, cost)


def test_the_change_tells_what_it_cost(db: None) -> None:
    make_price()
    _, token = factories.make_running_job()
    first, again = lifecycle.apply([factories.make_success(token), factories.make_success(token)], now=NOON)

    assert (first.cost_nano, again.cost_nano) == (10 * 150 + 7 * 600, 0)


def test_the_engines_own_count_of_the_prompt_is_what_counts(db: None) -> None:
    _, token = factories.make_running_job()
    lifecycle.apply([factories.make_success(token, prompt_tokens=12)], now=NOON)

    assert sums() == (1, 12, 7, 0, 0)


def test_a_finish_that_moves_nothing_adds_nothing(db: None) -> None:
    token = finish()
    before = sums()
    lifecycle.apply([factories.make_success(token, engine_seconds=9)], now=NOON)
    lifecycle.apply([lifecycle.Fail(token, FailureReason.RUN_TIMEOUT, "late", 5, 9.0)], now=NOON)
    lifecycle.apply([factories.make_success(factories.make_token(token.job_id))], now=NOON)

    assert sums() == before


def test_keys_models_tiers_and_days_have_rows_of_their_own(db: None) -> None:
    key, _ = factories.make_key()
    finish()
    finish(api_key_id=key.pk)
    finish(tier="bulk")
    finish(now=NOON + timedelta(hours=12))
    finish(now=NOON + timedelta(hours=11, minutes=59))

    assert sums(day=NOON.date()) == (4, 40, 28, 6000, 0)
    assert Usage.objects.count() == 4
    assert sums(api_key=key.prefix) == (1, 10, 7, 1500, 0)
    assert "." not in Usage.objects.get(api_key=key.prefix).api_key


def test_a_timeout_counts_what_the_engine_had_done(db: None) -> None:
    _, token = factories.make_running_job()
    lifecycle.apply([lifecycle.Fail(token, FailureReason.RUN_TIMEOUT, "late", 5, 600.0)], now=NOON)

    assert sums() == (1, 10, 5, 600_000, 0)


def test_a_request_that_the_engine_refused_used_nothing(db: None) -> None:
    _, token = factories.make_running_job()
    lifecycle.apply([lifecycle.Fail(token, FailureReason.BAD_REQUEST, "no", 0, 0.1)], now=NOON)

    assert sums() == (1, 0, 0, 0, 0)


def test_what_a_cancelled_job_had_used_is_booked_when_its_worker_tells(db: None) -> None:
    make_price()
    job, token = factories.make_running_job()
    lifecycle.apply([lifecycle.Cancel(job.id)], now=NOON)
    assert sums() == (1, 0, 0, 0, 0)

    account = lifecycle.Account(token, output_tokens=3, engine_seconds=0.5)
    told = [*lifecycle.apply([account], now=NOON), *lifecycle.apply([account], now=NOON)]
    job.refresh_from_db()

    assert [(each.moved, each.status) for each in told] == [(True, "cancelled"), (False, "cancelled")]
    assert sums() == (1, 10, 3, 500, 10 * 150 + 3 * 600 + 500 * 125)
    assert (job.output_tokens, JobEvent.objects.filter(job=job).count()) == (3, 3)


def test_a_cancelled_job_that_never_reached_the_engine_used_nothing(db: None) -> None:
    waiting = factories.make_job()
    job, token = factories.make_running_job()
    lifecycle.apply([lifecycle.Cancel(job.id), lifecycle.Cancel(waiting.id)], now=NOON)
    lifecycle.apply([lifecycle.Account(token)], now=NOON)

    assert sums() == (1, 0, 0, 0, 0)


def test_the_account_of_a_job_that_still_runs_gives_it_back(db: None) -> None:
    _, token = factories.make_running_job()
    [applied] = lifecycle.apply([lifecycle.Account(token, 3, 0.5)])

    assert (applied.moved, applied.status, sums()) == (True, JobStatus.QUEUED, (0, 0, 0, 0, 0))


def test_what_our_own_failures_broke_off_costs_nothing(db: None) -> None:
    _, token = factories.make_running_job(attempts=3)
    lifecycle.apply([lifecycle.Release(token, ReleaseReason.LEASE_EXPIRED)], now=NOON)

    assert sums() == (1, 0, 0, 0, 0)


def test_a_job_retried_by_hand_adds_to_what_it_used_before(db: None) -> None:
    job, token = factories.make_running_job()
    lifecycle.apply([lifecycle.Fail(token, FailureReason.RUN_TIMEOUT, "late", 5, 600.0)], now=NOON)
    lifecycle.apply([lifecycle.Retry(job.id)])
    token = factories.make_token(job.id)
    lifecycle.apply([lifecycle.Start(token, "worker-1"), factories.make_success(token)], now=NOON)
    job.refresh_from_db()

    assert sums() == (2, 20, 12, 600_000, 0)
    assert (job.used_prompt_tokens, job.used_output_tokens, job.engine_ms) == (20, 12, 600_000)


def test_a_new_price_changes_nothing_of_the_past(db: None) -> None:
    make_price()
    finish()
    before = sums()[-1]
    make_price(prompt_per_million=1000, valid_from=NOON - timedelta(days=1))
    assert sums()[-1] == before
    finish()

    assert sums()[-1] == 2 * before + 10 * (1_000_000 - 150)


def test_usage_outlives_jobs_and_keys(db: None) -> None:
    key, _ = factories.make_key()
    finish(api_key_id=key.pk)
    Job.objects.all().delete()
    key.delete()

    assert sums(api_key=key.prefix) == (1, 10, 7, 1500, 0)


def test_a_commit_that_fails_books_nothing(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    _, token = factories.make_running_job()

    def refuse(*args: object) -> None:
        raise RuntimeError("no sums today")

    monkeypatch.setattr(statements, "add_usage", refuse)
    with pytest.raises(RuntimeError):
        lifecycle.apply([factories.make_success(token)])

    assert (sums(), Job.objects.get(id=token.job_id).cost_nano) == ((0, 0, 0, 0, 0), 0)


def test_many_finishes_are_booked_by_one_statement(
    db: None, django_assert_num_queries: Callable[[int], Any]
) -> None:
    make_price()
    tokens = [factories.make_running_job()[1] for _ in range(64)]
    snapshot.limits()

    # Savepoint and its release; lock, update, events, usage.
    with django_assert_num_queries(6):
        lifecycle.apply([factories.make_success(token) for token in tokens], now=NOON)

    assert sums()[:3] == (64, 640, 448)


def test_threads_that_book_on_the_same_rows_lose_nothing(database: None) -> None:
    make_price()
    tiers = ("standard", "bulk", "realtime")
    tokens = [[factories.make_running_job(tier=tier)[1] for tier in tiers] for _ in range(4 * 5)]
    together = threading.Barrier(4)

    def book(number: int) -> None:
        together.wait()
        for order in tokens[number::4]:  # rows taken in the order of the jobs would be a deadlock
            mine = order if number % 2 else order[::-1]
            lifecycle.apply([factories.make_success(token) for token in mine], now=NOON)
        connection.close()

    threads = [threading.Thread(target=book, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sums() == (60, 600, 420, 0, 60 * (10 * 150 + 7 * 600))


MOVES = ("start", "succeed", "fail", "refuse", "rescue", "crash", "cancel", "account", "retry", "old")


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(MOVES), st.integers(0, 50)), max_size=40),
    st.integers(1, 5),
)
@pytest.mark.django_db
def test_sums_are_those_of_the_jobs_whatever_happened(history: list[tuple[int, str, int]], together: int) -> None:
    with transaction.atomic():
        make_price()
        make_price(tier_id="bulk", output_per_million=Decimal("0.001"))
        jobs = [factories.make_job(tier=tier) for tier in ("standard", "standard", "bulk", "realtime")]
        tokens = {job.id: [factories.make_token(job.id)] for job in jobs}
        changes = [change_of(move, tokens[jobs[n].id], size) for n, move, size in history]
        for i in range(0, len(changes), together):
            lifecycle.apply(changes[i : i + together], now=NOON + timedelta(days=i // 10))
        check_sums()
        transaction.set_rollback(True)
    snapshot.forget()


def change_of(move: str, tokens: list[Token], size: int) -> lifecycle.Change:
    """The next change of a job; a start begins a claim of its own, and `old` is the word of the one before."""
    if move == "start":
        tokens.append(factories.make_token(tokens[0].job_id))
    token = tokens[-1]
    changes: dict[str, lifecycle.Change] = {
        "start": lifecycle.Start(token, "worker-1"),
        "succeed": factories.make_success(token, output_tokens=size, engine_seconds=size / 7),
        "fail": lifecycle.Fail(token, FailureReason.RUN_TIMEOUT, "late", size, size / 7),
        "refuse": lifecycle.Fail(token, FailureReason.BAD_REQUEST, "no", size, size / 7),
        "rescue": lifecycle.Release(token, ReleaseReason.LEASE_EXPIRED),
        "crash": lifecycle.Release(token, ReleaseReason.ENGINE_CRASH),
        "cancel": lifecycle.Cancel(token.job_id),
        "account": lifecycle.Account(token, size, size / 7),
        "retry": lifecycle.Retry(token.job_id),
        "old": factories.make_success(tokens[-2:][0], output_tokens=size),
    }
    return changes[move]


def check_sums() -> None:
    """Hold usage against the jobs and their history."""
    of_jobs = Job.objects.aggregate(
        prompt=Sum("used_prompt_tokens"),
        output=Sum("used_output_tokens"),
        ms=Sum("engine_ms"),
        cost=Sum("cost_nano"),
    )
    ends = JobEvent.objects.filter(kind__in=[s.value for s in TERMINAL], claim_id__isnull=False).count()
    by_tier = Counter[str]()
    for tier, cost in Job.objects.values_list("tier_id", "cost_nano"):
        by_tier[tier] += cost

    assert sums() == (ends, of_jobs["prompt"], of_jobs["output"], of_jobs["ms"], of_jobs["cost"])
    assert {tier: sums(tier=tier)[-1] for tier in by_tier} == by_tier
