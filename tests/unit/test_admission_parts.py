"""What the refusal of one part of a bulk says of the whole."""

import uuid
from dataclasses import replace

import pytest

from inference.admission import parts
from inference.admission.terms import Answer, Candidate, Reason, Refusal, Usage
from inference.estimates import Demand, Learned
from inference.routing import QueueName
from tests import factories

SHORT, LONG = QueueName("m", "standard", "short"), QueueName("m", "standard", "long")
KNOWN = {str(SHORT): Learned()}


def candidate(queue: QueueName, prompt_tokens: int) -> Candidate:
    return Candidate(
        job_id=uuid.uuid4(),
        queue=queue,
        model=factories.make_model_limits("m"),
        demand=Demand(prompt_tokens, 10),
        request_bytes=50,
    )


OFFERED = [candidate(SHORT, 90), candidate(LONG, 900), candidate(SHORT, 90), candidate(SHORT, 90)]
"""The first two are taken when the third is refused."""


@pytest.mark.parametrize(
    ("reason", "name", "value", "asked"),
    [
        (Reason.REQUESTS_PER_MINUTE, "key=sk-ann", 1000 - 2, 4),
        (Reason.TENANT_QUEUED_JOBS, "ann", 1000 - 2, 4),
        (Reason.QUEUE_JOBS, str(SHORT), 1000 - 1, 3),
        (Reason.QUEUE_TOKENS, str(SHORT), 1000 - 100, 300),
        (Reason.QUEUE_BYTES, str(SHORT), 1000 - 50, 150),
        (Reason.MODEL_BYTES, str(SHORT), 1000 - 100, 200),
        (Reason.TOKENS_PER_MINUTE, "key=sk-ann", 1000 - 100, 300),
        (Reason.WAIT, str(SHORT), 1000, 1),
    ],
)
def test_what_goes_back_is_not_there_and_all_of_it_is_asked_for(
    reason: Reason, name: str, value: int, asked: int
) -> None:
    refusal = Refusal(reason, name, 1000, 1000, 1)
    told = parts.of_whole(Answer(refusal), KNOWN, OFFERED, 2)
    assert told.refusal == replace(refusal, value=value, asked=asked)


def test_rates_are_told_without_what_goes_back() -> None:
    refused = Answer(Refusal(Reason.QUEUE_JOBS, str(SHORT), 5, 5, 1), of_key=Usage(7, 450, 60_000))
    assert parts.of_whole(refused, KNOWN, OFFERED, 2).of_key == Usage(5, 350, 60_000)


def test_what_is_taken_is_told_as_it_is() -> None:
    taken = Answer(None, of_key=Usage(7, 450, 60_000))
    assert parts.of_whole(taken, KNOWN, OFFERED, 2) is taken
