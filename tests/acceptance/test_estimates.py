"""What a key's jobs did, its next jobs are expected to do."""

from typing import Any

from tests.acceptance import fleet
from tests.acceptance.stacks import Stack
from tests.waiting import until


def submit(stack: Stack, count: int = 1, **overrides: Any) -> list[dict[str, Any]]:
    with stack.client() as client:
        model = client.get("/v1/models").json()["data"][0]["id"]
        ask = {"model": model, "messages": [{"role": "user", "content": "Hello"}], **overrides}
        jobs: list[dict[str, Any]] = client.post("/api/v1/jobs/", json={"jobs": [{"body": ask}] * count}).json()[
            "jobs"
        ]
        return jobs


def model_rates(stack: Stack) -> dict[str, Any]:
    rates: dict[str, Any] = next(iter(fleet.registry(stack).values()))["model_rates"]
    return rates


def test_after_jobs_with_short_outputs_the_keys_estimates_have_followed(stack: Stack) -> None:
    """One question has one answer, whose length is what every job of this key brings."""
    first = submit(stack, 30)
    ended = fleet.wait_until_finished(stack, [job["id"] for job in first], seconds=60)
    [output] = {job["output_tokens"] for job in ended}
    assert output < 200
    until(lambda: submit(stack)[0]["expected_tokens"] == output, what="the estimate has followed")
    assert submit(stack, max_tokens=output - 1)[0]["expected_tokens"] == output - 1
    until(lambda: model_rates(stack)["measured_calls"] > 0, what="rates are measured")
    rates = model_rates(stack)
    assert rates["decode_tokens_per_second"] != rates["configured_decode_tokens_per_second"]
    until(lambda: not fleet.unfinished(stack), seconds=60)
