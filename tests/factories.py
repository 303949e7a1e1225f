"""Plain builders: every default visible, none random but ids."""

import uuid
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import uuid_utils.compat
from django.utils import timezone

from inference import estimates, fleet, lifecycle, publication, retries
from inference.broker import Broker, Claimed, ClaimRequest, Credit, Token
from inference.limits import LengthLimits, Limits, ModelLimits, TierLimits
from inference.models import ApiKey, Job, Tenant
from inference.states import Endpoint, EngineKind, ReleaseReason, WorkerState
from inference.submission import Caller, Submission

MODEL = "smollm2-135m-instruct"
REQUEST = '{"messages": [{"role": "user", "content": "Hello"}]}'


def make_new_job(**overrides: Any) -> lifecycle.NewJob:
    """A standard, short job of the default tenant."""
    created_at: datetime = overrides.pop("created_at", timezone.now())
    values: dict[str, Any] = {
        "id": uuid_utils.compat.uuid7(),
        "tenant": "default",
        "api_key_id": None,
        "model": MODEL,
        "tier": "standard",
        "length": "short",
        "endpoint": Endpoint.CHAT,
        "request": REQUEST,
        "streamed": False,
        "prompt_tokens": 10,
        "expected_tokens": 20,
        "estimate_seconds": 1.0,
        "created_at": created_at,
        "start_deadline_at": created_at + timedelta(seconds=300),
    }
    return lifecycle.NewJob(**values | overrides)


def make_job(**overrides: Any) -> Job:
    """A queued job's row, published nowhere."""
    return lifecycle.create([make_new_job(**overrides)])[0]


def make_suspects(*jobs: Job) -> list[Job]:
    """Give rows that are published nowhere the crashes after which they must run alone."""
    Job.objects.filter(id__in=[job.id for job in jobs]).update(engine_crashes=retries.CRASHES_UNTIL_ALONE)
    return list(Job.objects.filter(id__in=[job.id for job in jobs]).order_by("id"))


def publish(*jobs: Job) -> None:
    """Put the jobs, rows by now, into their queues."""
    publication.publish([publication.entry_of(job, tenant_weight=1.0) for job in jobs])


def claim(broker: Broker, queue: str, *, worker: str = "worker-1", lease_seconds: float = 60) -> Claimed:
    """Claim the queue's next job. Raises ValueError if there is none."""
    credit = Credit(sequences=1, kv_tokens=10_000, alone_ms=0)
    request = ClaimRequest((queue,), credit=credit, limit=1, worker=worker, lease_seconds=lease_seconds)
    [claimed] = broker.claim(request).jobs
    return claimed


def make_running_job(*, attempts: int = 1, worker: str = "worker-1", **overrides: Any) -> tuple[Job, Token]:
    """A job that a claim holds, after `attempts - 1` rescues; and that claim."""
    job = make_job(**overrides)
    for _ in range(attempts - 1):
        died = make_token(job.id)
        lifecycle.apply([lifecycle.Start(died, worker), lifecycle.Release(died, ReleaseReason.LEASE_EXPIRED)])
    token = make_token(job.id)
    lifecycle.apply([lifecycle.Start(token, worker)])
    job.refresh_from_db()
    return job, token


def make_token(job_id: uuid.UUID) -> Token:
    """A new claim on the job."""
    return Token(job_id, uuid.uuid4())


def make_success(token: Token, **overrides: Any) -> lifecycle.Succeed:
    """A finish with an answer."""
    values: dict[str, Any] = {
        "token": token,
        "result": '{"choices": []}',
        "output_tokens": 7,
        "finish_reason": "stop",
    }
    return lifecycle.Succeed(**values | overrides)


def make_caller(**overrides: Any) -> Caller:
    """The default tenant with a key that may use every tier."""
    return Caller(**{"tenant": "default"} | overrides)


def make_chat(content: str = "Hello", **fields: Any) -> dict[str, Any]:
    """A chat request's body."""
    return {"model": MODEL, "messages": [{"role": "user", "content": content}], **fields}


def make_submission(**overrides: Any) -> Submission:
    """A chat request."""
    return Submission(**{"endpoint": Endpoint.CHAT, "body": make_chat()} | overrides)


def make_tenant(name: str = "acme", **overrides: Any) -> Tenant:
    """A tenant beside the default one."""
    return Tenant.objects.create(name=name, **overrides)


def make_key(tenant: str = "default", name: str = "test") -> tuple[ApiKey, str]:
    """A key's row, and the key itself."""
    row, key = ApiKey.objects.create_key(name=name, tenant_id=tenant)
    assert isinstance(row, ApiKey)
    return row, key


def make_report(**overrides: Any) -> fleet.WorkerReport:
    """A ready worker's account of itself."""
    now = timezone.now()
    values: dict[str, Any] = {
        "name": "worker-1",
        "model": MODEL,
        "engine": EngineKind.SIM,
        "device": "cpu",
        "serve": ("*",),
        "host": "localhost",
        "pid": 1,
        "state": WorkerState.READY,
        "started_at": now,
        "ready_at": now,
        "slots": 32,
        "kv_capacity_tokens": 20_000,
    }
    return fleet.WorkerReport(**values | overrides)


def make_tier_limits(name: str = "standard", **overrides: Any) -> TierLimits:
    """A tier as decisions see it."""
    values: dict[str, Any] = {
        "name": name,
        "weight": 100.0,
        "engine_priority": 1,
        "start_deadline_seconds": 300.0,
        "sync_start_deadline_seconds": 60.0,
        "run_timeout_seconds": 600.0,
        "service_tiers": ("default", "auto"),
    }
    return TierLimits(**values | overrides)


def make_model_limits(name: str = MODEL, **overrides: Any) -> ModelLimits:
    """A model as decisions see it."""
    values: dict[str, Any] = {
        "name": name,
        "source": MODEL,
        "max_model_len": 8192,
        "max_num_seqs": 32,
        "max_num_batched_tokens": None,
        "dtype": "float32",
        "enforce_eager": True,
        "tensor_parallel_size": 1,
        "cpu_kv_cache_gib": 1.0,
        "engine_args": (),
        "kv_margin_tokens": 16,
        "default_output_tokens": 256,
        "prefill_tokens_per_second": 500.0,
        "decode_tokens_per_second": 10.0,
        "warmup_prompt": "What is the capital of France?",
        "warmup_answer": "Paris",
    }
    return ModelLimits(**values | overrides)


def make_limits(**overrides: Any) -> Limits:
    """Limits of one model with the tiers standard and bulk, and two length classes."""
    bulk = make_tier_limits("bulk", weight=1.0, engine_priority=2, service_tiers=("flex",))
    values: dict[str, Any] = {
        "tiers": {"standard": make_tier_limits(), "bulk": bulk},
        "lengths": {"short": LengthLimits("short", 511), "long": LengthLimits("long", None)},
        "models": {MODEL: make_model_limits()},
    }
    return Limits(**values | overrides)


def measure(broker: Broker, *, prefill: float, decode: float, calls: int = 20) -> None:
    """Teach the broker how fast the model's engines are, as calls of a worker would."""
    rates, speed = estimates.Rates(prefill, decode), estimates.Speed()
    for _ in range(calls):
        call = estimates.Call(1000, 101, rates.seconds(1000, 101), rates.seconds(1000, 1))
        speed = speed.after(call, estimates.configured(make_model_limits()))
    known = broker.lessons(MODEL, [])
    broker.learn(known, replace(known, speed=speed))
