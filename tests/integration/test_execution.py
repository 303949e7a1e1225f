"""One claim's way: every end of the engine's work is one of a closed set, on record and told to the broker."""

import json

import pytest

from inference.broker import Claimed
from inference.models import Tier
from inference.states import FailureReason, JobStatus, ReleaseReason
from tests import factories
from tests.integration import hosts
from tests.integration.hosts import Hosted, answer, row
from tests.waiting import until
from workers.engine import EngineAway, EngineCall, EngineFault, EngineGone, EngineRefused
from workers.execution import Abort
from workers.outcomes import Completed, Failed, Interrupted

hosted = hosts.hosted


def test_an_answer_is_on_record_before_the_broker_forgets_the_job(hosted: Hosted) -> None:
    claimed = hosted.submit()
    assert isinstance(hosted.end(), Completed)
    job = row(claimed)
    assert job.status == JobStatus.SUCCEEDED
    assert job.result == answer().decode()
    assert (job.prompt_tokens, job.output_tokens, job.finish_reason) == (3, 2, "stop")
    assert (hosted.leases, hosted.waiting) == (0, 0)
    assert hosted.host.vitals.in_flight == 0


def test_the_engine_is_told_the_job_and_the_priority_of_its_tier(hosted: Hosted) -> None:
    claimed = hosted.submit()
    hosted.end()
    [call] = hosted.engine.calls
    assert call.request_id == str(claimed.token.job_id)
    assert call.priority == Tier.objects.get(name="standard").engine_priority
    assert json.loads(call.body) == json.loads(factories.REQUEST)


def test_a_refusal_fails_the_job_with_the_engines_words(hosted: Hosted) -> None:
    body = json.dumps({"error": {"message": "temperature must be at most 2"}}).encode()
    hosted.engine.reply = hosted.engine.raises(EngineRefused(400, body))
    claimed = hosted.submit()
    assert hosted.end() == Failed(FailureReason.BAD_REQUEST, "temperature must be at most 2")
    assert (row(claimed).status, row(claimed).error_code) == (JobStatus.FAILED, "bad_request")
    assert hosted.leases == 0


@pytest.mark.parametrize("error", [EngineFault("it answered 500"), RuntimeError("a bug of ours")])
def test_a_fault_fails_the_job(hosted: Hosted, error: Exception) -> None:
    hosted.engine.reply = hosted.engine.raises(error)
    claimed = hosted.submit()
    hosted.end()
    assert row(claimed).error_code == FailureReason.ENGINE_ERROR


def test_an_answer_that_is_no_completion_fails_the_job(hosted: Hosted) -> None:
    async def reply(_call: EngineCall) -> bytes:
        return b"<html>"

    hosted.engine.reply = reply
    claimed = hosted.submit()
    hosted.end()
    assert row(claimed).error_code == FailureReason.ENGINE_ERROR


def test_a_job_that_runs_too_long_fails_and_leaves_the_engine(hosted: Hosted) -> None:
    hurried = factories.make_tier_limits(run_timeout_seconds=0.05)
    hosted.limits = factories.make_limits(tiers={"standard": hurried})
    hosted.engine.reply = hosted.engine.forever
    claimed = hosted.submit()
    hosted.end()
    assert row(claimed).error_code == FailureReason.RUN_TIMEOUT
    assert hosted.engine.aborted == 1


def test_a_job_whose_engine_is_gone_goes_back_at_no_cost_of_an_attempt(hosted: Hosted) -> None:
    hosted.engine.reply = hosted.engine.raises(EngineGone("lost"))
    claimed = hosted.submit()
    assert hosted.end() == Interrupted(ReleaseReason.ENGINE_CRASH)
    job = row(claimed)
    assert (job.status, job.attempts, job.engine_crashes) == (JobStatus.QUEUED, 0, 1)
    assert (hosted.leases, hosted.waiting) == (0, 1)
    until(lambda: hosted.host.room.credit().sequences)  # the engine answered after all: the gate is open again


def test_a_job_that_an_engine_elsewhere_never_saw_is_not_counted_as_there_when_it_went(hosted: Hosted) -> None:
    hosted.engine.reply = hosted.engine.raises(EngineAway("cannot be reached"))
    claimed = hosted.submit()
    assert hosted.end() == Interrupted(ReleaseReason.ENGINE_UNREACHABLE)
    job = row(claimed)
    assert (job.status, job.attempts, job.engine_crashes) == (JobStatus.QUEUED, 0, 0)
    until(lambda: hosted.host.room.credit().sequences)


def suspect_of_two_crashes(hosted: Hosted) -> Claimed:
    factories.publish(*factories.make_suspects(factories.make_job()))
    return hosted.claim()


def test_the_third_crash_under_a_job_fails_it(hosted: Hosted) -> None:
    hosted.engine.reply = hosted.engine.raises(EngineGone("lost"))
    claimed = hosted.run(suspect_of_two_crashes(hosted))
    hosted.end()
    assert row(claimed).error_code == FailureReason.ENGINE_CRASH
    assert (hosted.leases, hosted.waiting) == (0, 0)


def test_a_job_that_saw_two_crashes_starts_when_nothing_else_runs_and_nothing_is_claimed_meanwhile(
    hosted: Hosted,
) -> None:
    hosted.engine.reply = hosted.engine.forever
    ordinary = hosted.submit()
    until(lambda: hosted.engine.running)
    suspect = hosted.run(suspect_of_two_crashes(hosted))
    emptying = hosted.host.room.credit()
    assert emptying.sequences == emptying.reserve.sequences > 0, "urgent jobs may still come"
    assert (row(suspect).status, row(suspect).started_at) == (JobStatus.QUEUED, None)
    hosted.host.abort(ordinary.token, Abort.DRAIN)
    until(lambda: len(hosted.engine.calls) == 2)
    assert row(suspect).status == JobStatus.RUNNING
    assert hosted.host.room.credit().sequences == 0
    late = hosted.submit()
    assert hosted.end(2) == Interrupted(ReleaseReason.DRAIN)
    assert (row(late).status, row(late).attempts, len(hosted.engine.calls)) == (JobStatus.QUEUED, 0, 2)
    hosted.host.abort(suspect.token, Abort.DRAIN)
    until(lambda: hosted.host.room.credit().sequences)
    assert (hosted.host.room.credit().alone_ms or 0) > 0, "others have their turn first"


def test_a_job_that_its_row_alone_knows_to_have_seen_two_crashes_goes_back_to_be_run_alone(hosted: Hosted) -> None:
    job = hosted.publish()
    factories.make_suspects(job)
    hosted.run(hosted.claim())
    assert hosted.end() == Interrupted(ReleaseReason.RUNS_ALONE)
    again = hosted.claim()
    assert (hosted.engine.calls, row(again).attempts, again.is_alone) == ([], 0, True)
    hosted.run(again)
    assert isinstance(hosted.end(2), Completed)
