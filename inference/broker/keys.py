"""Names of the Redis keys that Python touches; `lua/common.lua` lists all of them. Each starts with the prefix."""

from uuid import UUID


def bell(prefix: str, queue: str) -> str:
    """List that a waiting worker blocks on."""
    return f"{prefix}bell:{queue}"


def mailbox(prefix: str, name: str) -> str:
    """Stream that one process reads for all jobs it waits for."""
    return f"{prefix}mail:{name}"


def stream(prefix: str, job_id: UUID) -> bytes:
    """Stream of one job's events."""
    return prefix.encode() + b"s:" + job_id.bytes


def lock(prefix: str, name: str) -> str:
    """Lease of a periodic task."""
    return f"{prefix}lock:{name}"


def starts(prefix: str, queue: str) -> str:
    """Name the string that counts which of a queue's jobs started in time."""
    return f"{prefix}starts:{queue}"


def output(owner: str, model: str, length: str) -> str:
    """Name the running quantile of an owner's output tokens, less the prefix."""
    return f"output:{owner}:{model}:{length}"


def speed(model: str) -> str:
    """Name what was measured of a model's engines, less the prefix."""
    return f"speed:{model}"
