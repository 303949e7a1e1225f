"""The limits of all processes: read from the tables, at most one second old."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from django.db import connection

from inference import charges, last_good, models
from inference.charges import Price, PriceList
from inference.limits import (
    Budget,
    KeyLimits,
    LengthLimits,
    Limits,
    ModelLimits,
    QueueLimits,
    TenantLimits,
    TierLimits,
    WorkerLimits,
)
from inference.states import OnFull

_BEGIN: Final = {"postgresql": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"}


def limits(*, max_age_seconds: float = last_good.MAX_AGE_SECONDS) -> Limits:
    """Return limits no older than that; on a database error the last good ones (fails open, with a log line).

    Thread-safe. Raises django.db.Error only if there never was a good read.
    """
    return _limits.get(max_age_seconds=max_age_seconds)


def seconds_left() -> float:
    """Return how long calls go by what is known; less than 0 if the next one reads."""
    return _limits.seconds_left()


def renew() -> None:
    """Have the next call read, however young the limits are; if it cannot, they hold on."""
    _limits.renew()


def forget() -> None:
    """Drop what is cached: the next call reads, or fails."""
    _limits.forget()


def standing() -> last_good.Standing:
    """Return how old the limits of this process are, looked at anew, and what keeps it from newer ones."""
    return _limits.standing()


def read() -> Limits:
    """Read all limit tables as of one moment. Raises django.db.Error."""
    with _one_moment():
        tiers = {t.name: _tier(t) for t in models.Tier.objects.all()}
        served = list(models.ServedModel.objects.filter(enabled=True))
        return Limits(
            tiers=tiers,
            lengths={c.name: _length(c) for c in models.LengthClass.objects.all()},
            models={m.name: _model(m) for m in served},
            queue_limits={q.queue: _queue(q) for q in models.QueueLimit.objects.all()},
            worker_limits={w.worker: _worker(w) for w in models.WorkerLimit.objects.all()},
            default_tier=_default_tier(tiers),
            default_model=next((m.name for m in served if m.is_default), None),
            prices=PriceList.of(map(_price, models.Price.objects.all())),
            budgets={b.owner: b for b in map(_budget, models.Budget.objects.select_related("api_key"))},
        )


_limits: Final = last_good.LastGood(read, what="limits")


@contextmanager
def _one_moment() -> Iterator[None]:
    """Open a read-only transaction; Django's own would take SQLite's write lock (IMMEDIATE)."""
    if connection.in_atomic_block:
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute(_BEGIN.get(connection.vendor, "BEGIN"))
        try:
            yield
        finally:
            cursor.execute("ROLLBACK")


def _default_tier(tiers: dict[str, TierLimits]) -> str:
    """Return the tier of a request that names none: the one that OpenAI's `default` picks, else the first."""
    named = [t.name for t in tiers.values() if "default" in t.service_tiers]
    return next(iter(named or tiers), "")


def _tier(row: models.Tier) -> TierLimits:
    return TierLimits(
        name=row.name,
        weight=row.weight,
        engine_priority=row.engine_priority,
        start_deadline_seconds=row.start_deadline_seconds,
        sync_start_deadline_seconds=row.sync_start_deadline_seconds,
        run_timeout_seconds=row.run_timeout_seconds,
        service_tiers=tuple(row.service_tiers),
        max_wait_seconds=row.max_wait_seconds,
        max_queued_jobs=row.max_queued_jobs,
        max_queued_tokens=row.max_queued_tokens,
        max_queued_bytes=row.max_queued_bytes,
        on_full=OnFull(row.on_full),
        hold_seconds=row.hold_seconds,
        max_held_jobs=row.max_held_jobs,
        max_attempts=row.max_attempts,
        uses_reserve=row.uses_reserve,
        max_share=row.max_share,
        max_in_flight=row.max_in_flight,
        gather_jobs=row.gather_jobs,
        gather_seconds=row.gather_seconds,
        target_wait_seconds=row.target_wait_seconds,
        objective_share=row.objective_share,
    )


def _length(row: models.LengthClass) -> LengthLimits:
    return LengthLimits(row.name, row.max_prompt_tokens, row.max_in_flight)


def _queue(row: models.QueueLimit) -> QueueLimits:
    return QueueLimits(
        max_jobs=row.max_jobs,
        max_in_flight=row.max_in_flight,
        is_paused=row.is_paused,
        is_draining=row.is_draining,
        halted_by=row.halted_by,
        resumed_at=_seconds(row.resumed_at),
        max_tokens=row.max_tokens,
        max_bytes=row.max_bytes,
    )


def key_limits(row: models.ApiKey) -> KeyLimits:
    """Return what an admin set for the key."""
    return KeyLimits(row.requests_per_second, row.requests_per_minute, row.tokens_per_minute)


def tenant_limits(row: models.Tenant) -> TenantLimits:
    """Return what an admin set for the tenant."""
    return TenantLimits(
        requests_per_minute=row.requests_per_minute,
        tokens_per_minute=row.tokens_per_minute,
        max_queued_jobs=row.max_queued_jobs,
        max_unfinished_jobs=row.max_unfinished_jobs,
    )


def _price(row: models.Price) -> Price:
    return Price(
        model=row.model_id,
        tier=row.tier_id,
        prompt_per_million=row.prompt_per_million,
        output_per_million=row.output_per_million,
        per_engine_second=row.per_engine_second,
        valid_from=row.valid_from,
    )


def _budget(row: models.Budget) -> Budget:
    key = row.api_key.prefix if row.api_key else ""
    return Budget(row.tenant_id, key, charges.nano_of(row.monthly))


def _worker(row: models.WorkerLimit) -> WorkerLimits:
    return WorkerLimits(row.is_paused, row.is_draining, row.halted_by, _seconds(row.resumed_at))


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def _model(row: models.ServedModel) -> ModelLimits:
    return ModelLimits(
        name=row.name,
        source=row.source,
        max_model_len=row.max_model_len,
        max_num_seqs=row.max_num_seqs,
        max_num_batched_tokens=row.max_num_batched_tokens,
        dtype=row.dtype,
        enforce_eager=row.enforce_eager,
        tensor_parallel_size=row.tensor_parallel_size,
        cpu_kv_cache_gib=row.cpu_kv_cache_gib,
        engine_args=tuple(row.engine_args),
        kv_margin_tokens=row.kv_margin_tokens,
        default_output_tokens=row.default_output_tokens,
        prefill_tokens_per_second=row.prefill_tokens_per_second,
        decode_tokens_per_second=row.decode_tokens_per_second,
        warmup_prompt=row.warmup_prompt,
        warmup_answer=row.warmup_answer,
        max_in_flight=row.max_in_flight,
        scales_from_zero=row.scales_from_zero,
        engine_start_seconds=row.engine_start_seconds,
        max_queued_bytes=row.max_queued_bytes,
        emergency_watermark=row.emergency_watermark,
        reserve_share=row.reserve_share,
        stall_seconds=row.stall_seconds,
        estimates_tokens=row.estimates_tokens,
    )
