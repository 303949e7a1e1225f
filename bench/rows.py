"""`python -m bench.rows VERB …`: what the suite does to the database of a stack or worker that it measures.

- `migrate`: make the tables
- `update TABLE FILTER FIELDS`: set fields of rows, as `update Tier '{"name": "bulk"}' '{"weight": 2}'`
- `cap QUEUE JOBS`: let so many jobs wait in a queue
- `keys TENANTS`: make tenants, as `{"ann": 3}` with their weights, and print a key for each
- `queue JOBS TENANTS`: queue jobs of 64 prompt tokens, of so many tenants in turn, as submissions do
- `replay FILE`: queue a job at each moment that the file names, all of one tier and one estimate
- `cancel`: cancel every job that waits
- `counters`: print what the queues count and what their rows say, by queue and unit
- `count`: print how many jobs succeeded
- `jobs`: print every job, see `FIELDS`
- `events`: print every step of every job: job, kind, time, worker
"""

import itertools
import json
import sys
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import django

django.setup()

import uuid_utils.compat  # noqa: E402 - Django must be set up first
from django.apps import apps  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import transaction  # noqa: E402
from django.db.models import Count, F, Sum  # noqa: E402
from django.utils import timezone  # noqa: E402

from bench import stack  # noqa: E402
from inference import broker, lifecycle, publication, snapshot, submission  # noqa: E402
from inference.models import ApiKey, Job, JobEvent, QueueLimit, ServedModel, Tenant  # noqa: E402
from inference.states import Endpoint, JobStatus  # noqa: E402

BULK: Final = 1_000
FIELDS: Final = (
    "id",
    "tenant",
    "tier",
    "length",
    "status",
    "worker",
    "prompt_tokens",
    "output_tokens",
    "estimate_seconds",
    "created_at",
    "started_at",
    "finished_at",
)


def migrate() -> None:
    """Make the tables."""
    call_command("migrate", verbosity=0)


def update(table: str, where: str, fields: str) -> None:
    """Set fields of the rows that match."""
    apps.get_model("inference", table).objects.filter(**json.loads(where)).update(**json.loads(fields))


def cap(name: str, most: str) -> None:
    """Set a queue's cap."""
    QueueLimit.objects.update_or_create(queue=name, defaults={"max_jobs": int(most)})


def keys(tenants: str) -> None:
    """Make tenants and print their keys."""
    made = {}
    for name, weight in json.loads(tenants).items():
        tenant = Tenant.objects.create(name=name, weight=weight)
        made[name] = ApiKey.objects.create_key(name="bench", tenant=tenant)[1]
    _print(made)


def queue(count: str, tenants: str) -> None:
    """Write and publish so many jobs, of tenants that are made if there are more than one."""
    names = [f"tenant-{number}" for number in range(int(tenants))] if int(tenants) > 1 else ["default"]
    Tenant.objects.bulk_create([Tenant(name=name) for name in names], ignore_conflicts=True)
    model = ServedModel.objects.get(is_default=True).name
    body = _body(model, 64, 64)
    jobs = (_job(model, tenant, body) for tenant in itertools.islice(itertools.cycle(names), int(count)))
    while chunk := list(itertools.islice(jobs, BULK)):
        with transaction.atomic():
            rows = lifecycle.create(chunk)
        publication.publish([publication.entry_of(row, tenant_weight=1.0) for row in rows])


def replay(path: str) -> None:
    """Write and publish each job at its moment. Equal estimates leave the arrival alone to order them."""
    began, model = time.time(), ServedModel.objects.get(is_default=True).name
    for at, prompt_tokens, output_tokens in json.loads(Path(path).read_text()):
        body = _body(model, prompt_tokens, output_tokens)
        time.sleep(max(0.0, began + at - time.time()))
        job = _job(model, "default", body, prompt_tokens=prompt_tokens, expected_tokens=output_tokens)
        [row] = lifecycle.create([job])
        publication.publish([publication.entry_of(row, tenant_weight=1.0)])


def cancel() -> None:
    """Cancel every job that waits."""
    for job_id in Job.objects.filter(status=JobStatus.QUEUED).values_list("id", flat=True):
        submission.cancel(caller=None, job_id=job_id)


def counters() -> None:
    """Print `{"QUEUE UNIT": [counted, in rows]}` of every queue."""
    rows = Job.objects.filter(status=JobStatus.QUEUED).values("model_id", "tier_id", "length_id")
    tokens = Sum(F("prompt_tokens") + F("expected_tokens"))
    summed = rows.annotate(jobs=Count("id"), tokens=tokens, bytes=Sum("request_bytes"))
    there: dict[str, Mapping[str, Any]] = {f"{r['model_id']}.{r['tier_id']}.{r['length_id']}": r for r in summed}
    told = {}
    for queue in broker.get_broker().stats(snapshot.limits().queues()):
        for unit in ("jobs", "tokens", "bytes"):
            told[f"{queue.queue} {unit}"] = [getattr(queue, unit), there.get(queue.queue, {}).get(unit, 0)]
    _print(told)


def count() -> None:
    """Print how many jobs succeeded."""
    _print(Job.objects.filter(status=JobStatus.SUCCEEDED).count())


def jobs() -> None:
    """Print every job."""
    _print([_plain(row) for row in Job.objects.order_by("id").values_list(*FIELDS)])


def events() -> None:
    """Print the history of all jobs, in order."""
    rows = JobEvent.objects.order_by("id").values_list("job_id", "kind", "at", "worker")
    _print([_plain(row) for row in rows])


def _plain(row: tuple[Any, ...]) -> list[Any]:
    return [_simple(value) for value in row]


def _simple(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.timestamp()
    return value if isinstance(value, int | float | None) else str(value)


def _print(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")


def _body(model: str, prompt_tokens: int, output_tokens: int) -> str:
    asked = stack.body(prompt_tokens=prompt_tokens, output_tokens=output_tokens)
    return json.dumps({**asked, "model": model, "stream": False})


def _job(
    model: str, tenant: str, body: str, *, prompt_tokens: int = 64, expected_tokens: int = 64
) -> lifecycle.NewJob:
    now = timezone.now()
    return lifecycle.NewJob(
        id=uuid_utils.compat.uuid7(),
        tenant=tenant,
        api_key_id=None,
        model=model,
        tier="standard",
        length="short",
        endpoint=Endpoint.CHAT,
        request=body,
        streamed=False,
        prompt_tokens=prompt_tokens,
        expected_tokens=expected_tokens,
        estimate_seconds=1.0,
        created_at=now,
        start_deadline_at=now + timedelta(days=1),
    )


VERBS: Final[Mapping[str, Callable[..., None]]] = {
    verb.__name__: verb
    for verb in (migrate, update, cap, keys, queue, replay, cancel, counters, count, jobs, events)
}

if __name__ == "__main__":
    VERBS[sys.argv[1]](*sys.argv[2:])
