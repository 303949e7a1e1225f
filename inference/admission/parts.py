"""A bulk is asked for in parts: what the refusal of one of them says of the whole. Pure.

The parts before it are given back, and it is the whole that has to fit if it comes again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from inference import routing
from inference.admission.terms import Answer, Candidate, Reason, Refusal, Usage
from inference.estimates import Learned


def of_whole(answer: Answer, known: Mapping[str, Learned], offered: Sequence[Candidate], before: int) -> Answer:
    """Return a refusal of the jobs after the `before` first ones as one of all that are `offered`.

    `known` is what was learned of each queue so far. Tokens of others are not counted: what is asked for is never
    said to be more than it is.
    """
    if answer.refusal is None:
        return answer
    own, tokens = offered[:before], sum(_tokens(each, known) for each in offered[:before])
    return replace(
        answer,
        refusal=_refusal(answer.refusal, known, offered, own),
        of_key=_without(answer.of_key, len(own), tokens),
        of_tenant=_without(answer.of_tenant, len(own), tokens),
    )


def _refusal(
    refusal: Refusal, known: Mapping[str, Learned], offered: Sequence[Candidate], own: Sequence[Candidate]
) -> Refusal:
    if refusal.reason not in _COUNTS:
        return refusal
    counts, amount = _COUNTS[refusal.reason]
    ours = partial(counts, refusal.name)
    taken, asked = (sum(amount(each, known) for each in filter(ours, jobs)) for jobs in (own, offered))
    return replace(refusal, value=max(0, refusal.value - taken), asked=asked)


def _without(usage: Usage | None, requests: int, tokens: int) -> Usage | None:
    if usage is None:
        return None
    return replace(usage, requests=max(0, usage.requests - requests), tokens=max(0, usage.tokens - tokens))


def _tokens(job: Candidate, known: Mapping[str, Learned]) -> int:
    learned = known.get(str(job.queue))
    return job.demand.prompt_tokens + learned.expected_tokens(job.model, job.demand) if learned else 0


def _jobs(_job: Candidate, _known: Mapping[str, Learned]) -> int:
    return 1


def _bytes(job: Candidate, _known: Mapping[str, Learned]) -> int:
    return job.request_bytes


def _any(_name: str, _job: Candidate) -> bool:
    return True


def _in_queue(name: str, job: Candidate) -> bool:
    return str(job.queue) == name


def _of_model(name: str, job: Candidate) -> bool:
    return job.model.name == routing.parse(name).model


_Counts = Callable[[str, Candidate], bool]
_Amount = Callable[[Candidate, Mapping[str, Learned]], int]
_COUNTS: Final[Mapping[Reason, tuple[_Counts, _Amount]]] = {
    Reason.REQUESTS_PER_SECOND: (_any, _jobs),
    Reason.REQUESTS_PER_MINUTE: (_any, _jobs),
    Reason.TOKENS_PER_MINUTE: (_any, _tokens),
    Reason.TENANT_QUEUED_JOBS: (_any, _jobs),
    Reason.TENANT_UNFINISHED_JOBS: (_any, _jobs),
    Reason.QUEUE_JOBS: (_in_queue, _jobs),
    Reason.QUEUE_TOKENS: (_in_queue, _tokens),
    Reason.QUEUE_BYTES: (_in_queue, _bytes),
    Reason.MODEL_BYTES: (_of_model, _bytes),
}
"""Which of the jobs a limit counts, and by what."""
