"""The states and kinds that a column may hold."""

from inference.states import Endpoint, EngineKind, JobEventKind, JobStatus, OnFull, WorkerState


def choices_of(
    values: type[JobStatus | JobEventKind | WorkerState | Endpoint | EngineKind | OnFull],
) -> list[tuple[str, str]]:
    """Return the values as Django's choices, each called what it is."""
    return [(v.value, v.value) for v in values]
