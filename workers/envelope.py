"""The Celery message of a claim: made when a job is claimed and never stored, since jobs cross Redis as ids."""

import uuid
from typing import Any, Final

import uuid_utils.compat
from kombu.utils import json

from inference import routing
from inference.broker.types import Claimed

RUN_JOB: Final = "inference.run_job"
"""Name of the Celery task that stands for every job; `inference.tasks` registers it."""

CLAIM_HEADER: Final = "claim"
"""Header that carries the `Claimed` itself to the pool; the message never leaves the process."""

NO_ARGUMENTS: Final = [[], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]
"""What every job's body says. Not to be changed: one for all."""
_BODY: Final[str] = json.dumps(NO_ARGUMENTS)


def message(claimed: Claimed) -> dict[str, Any]:
    """Return what kombu delivers: a job's envelope, or the task's own message under this claim's tag."""
    return _task(claimed) if claimed.body else _job(claimed)


def claim_of(request: dict[str, Any]) -> Claimed:
    """Return the claim behind a job's Celery request. Raises KeyError for a request that is not a job's."""
    claimed: Claimed = request[CLAIM_HEADER]
    return claimed


def task_id(queue: str, message: dict[str, Any]) -> uuid.UUID:
    """Return the id under which a task that is not a job is queued: a new one, or that of its name.

    By its name goes a task that is in the queue once at most.
    """
    headers = message["headers"]
    if headers.get(routing.ONCE_HEADER):
        return uuid.uuid5(uuid.NAMESPACE_URL, f"{queue}/{headers['task']}")
    return uuid_utils.compat.uuid7()


def _task(claimed: Claimed) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(claimed.body)
    stored["properties"]["delivery_tag"] = claimed.token.tag
    return stored


def _job(claimed: Claimed) -> dict[str, Any]:
    tag = claimed.token.tag
    return {
        "body": _BODY,
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": _headers(claimed, tag),
        "properties": {
            "delivery_tag": tag,
            "correlation_id": tag,
            "reply_to": None,
            "priority": 0,
            "delivery_info": {"exchange": "", "routing_key": claimed.queue, "redelivered": False},
        },
    }


def _headers(claimed: Claimed, tag: str) -> dict[str, Any]:
    return {
        "lang": "py",
        "task": RUN_JOB,
        "id": tag,
        "root_id": tag,
        "parent_id": None,
        "group": None,
        "retries": 0,
        "eta": None,
        "expires": None,
        "timelimit": [None, None],
        "ignore_result": True,
        "argsrepr": "()",
        "kwargsrepr": _shown(claimed),
        "origin": "",
        CLAIM_HEADER: claimed,
    }


def _shown(claimed: Claimed) -> str:
    """Return what Flower shows of a job: where it came from and how large it is, never what it says."""
    return repr(
        {
            "queue": claimed.queue,
            "tenant": claimed.tenant,
            "prompt_tokens": claimed.prompt_tokens,
            "expected_tokens": claimed.expected_tokens,
        }
    )
