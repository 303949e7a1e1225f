"""`python -m bench.rows …`: what the suite does to the database of a stack or worker that it measures.

- `prepare '{"max_num_seqs": 64}'`: migrate, and set fields of the default model
- `queue COUNT`: queue jobs of 64 prompt tokens, as submissions do
- `count`: print how many jobs succeeded
"""

import json
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final

import django

django.setup()

import uuid_utils.compat  # noqa: E402 - Django must be set up first
from django.core.management import call_command  # noqa: E402
from django.utils import timezone  # noqa: E402

from inference import lifecycle, publication  # noqa: E402
from inference.models import Job, ServedModel  # noqa: E402
from inference.states import Endpoint, JobStatus  # noqa: E402

BULK: Final = 100


def prepare(fields: str) -> None:
    """Migrate, and set fields of the default model."""
    call_command("migrate", verbosity=0)
    ServedModel.objects.filter(is_default=True).update(**json.loads(fields))


def queue(count: str) -> None:
    """Write and publish so many jobs."""
    model = ServedModel.objects.get(is_default=True).name
    left = int(count)
    while left > 0:
        jobs = lifecycle.create([_job(model) for _ in range(min(left, BULK))])
        publication.publish([publication.entry_of(job, tenant_weight=1.0) for job in jobs])
        left -= len(jobs)


def count() -> None:
    """Print how many jobs succeeded."""
    sys.stdout.write(f"{Job.objects.filter(status=JobStatus.SUCCEEDED).count()}\n")


def _job(model: str) -> lifecycle.NewJob:
    now = timezone.now()
    body = {"model": model, "messages": [{"role": "user", "content": "word " * 64}], "max_tokens": 64}
    return lifecycle.NewJob(
        id=uuid_utils.compat.uuid7(),
        tenant="default",
        api_key_id=None,
        model=model,
        tier="standard",
        length="short",
        endpoint=Endpoint.CHAT,
        request=json.dumps(body),
        streamed=False,
        prompt_tokens=64,
        expected_tokens=64,
        estimate_seconds=1.0,
        created_at=now,
        start_deadline_at=now + timedelta(hours=1),
    )


VERBS: Final[Mapping[str, Callable[..., None]]] = {"prepare": prepare, "queue": queue, "count": count}

if __name__ == "__main__":
    VERBS[sys.argv[1]](*sys.argv[2:])
