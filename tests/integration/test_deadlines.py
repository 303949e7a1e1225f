"""What comes too late, runs too long or can never fit ends without the engine, and says why."""

import asyncio
import uuid
from datetime import timedelta

from django.utils import timezone

from inference import fleet, maintenance
from inference.models import Job, JobEvent
from inference.states import FailureReason, JobEventKind, JobStatus
from tests import factories
from tests.integration import hosts
from tests.integration.hosts import KV_TOKENS, Hosted, row
from tests.waiting import until
from workers.engine import EngineGone
from workers.outcomes import Failed

hosted = hosts.hosted


def events(job_id: uuid.UUID) -> list[tuple[str, str]]:
    return list(JobEvent.objects.filter(job_id=job_id).order_by("id").values_list("kind", "detail"))


def test_a_job_claimed_past_its_start_deadline_never_reaches_the_engine(hosted: Hosted) -> None:
    long_ago = timezone.now() - timedelta(hours=1)
    fleet.report(factories.make_report(ready_at=long_ago))
    hosted.publish(created_at=long_ago, streamed=True)
    claimed = hosted.claim()
    hosted.broker.watch(claimed.token.job_id, "web-1")
    hosted.run(claimed)

    assert hosted.end() is None
    assert hosted.engine.calls == []
    assert (row(claimed).status, row(claimed).attempts) == (JobStatus.EXPIRED, 0)
    assert row(claimed).error_message == "Not started by its start deadline."
    assert events(claimed.token.job_id)[-1][0] == JobEventKind.EXPIRED
    assert [event.kind for event in hosted.broker.stream(claimed.token.job_id)] == [JobStatus.EXPIRED]
    assert (hosted.leases, hosted.waiting) == (0, 0)


def test_a_claim_in_time_by_the_clock_of_ready_workers_runs(hosted: Hosted) -> None:
    fleet.report(factories.make_report(ready_at=timezone.now()))
    claimed = hosted.submit(created_at=timezone.now() - timedelta(hours=1))
    hosted.end()

    assert row(claimed).status == JobStatus.SUCCEEDED


def test_a_job_that_waits_for_its_next_try_expires_as_others_do_and_leaves_nothing(hosted: Hosted) -> None:
    long_ago = timezone.now() - timedelta(hours=1)
    hosted.engine.reply = hosted.engine.raises(EngineGone("lost"))
    hosted.submit(created_at=long_ago)
    hosted.end()
    assert (hosted.leases, hosted.waiting) == (0, 1)
    assert hosted.broker.client.exists(f"{hosted.broker.prefix}d:{hosts.QUEUE}")
    fleet.report(factories.make_report(ready_at=long_ago))
    Job.objects.update(queued_at=long_ago, start_deadline_at=long_ago + timedelta(minutes=5))

    assert maintenance.expire(timezone.now()) == 1
    assert hosted.waiting == 0
    assert not hosted.broker.client.exists(f"{hosted.broker.prefix}d:{hosts.QUEUE}")


def test_a_run_timeout_leaves_the_engine_an_event_and_a_reason(hosted: Hosted) -> None:
    hurried = factories.make_tier_limits(run_timeout_seconds=0.05)
    hosted.limits = factories.make_limits(tiers={"standard": hurried})
    hosted.engine.reply = hosted.engine.forever
    claimed = hosted.submit()

    assert hosted.end() == Failed(FailureReason.RUN_TIMEOUT, "The job ran longer than 0.05 s.")
    assert (hosted.engine.aborted, hosted.engine.running) == (1, 0)
    assert events(claimed.token.job_id)[-1] == (JobEventKind.FAILED, "run_timeout")
    assert row(claimed).error_message == "The job ran longer than 0.05 s."


def test_a_job_larger_than_the_engines_whole_cache_fails_without_a_call(hosted: Hosted) -> None:
    claimed = hosted.submit(prompt_tokens=KV_TOKENS, expected_tokens=1)
    hosted.end()

    assert hosted.engine.calls == []
    assert row(claimed).error_code == FailureReason.BAD_REQUEST
    assert f"{KV_TOKENS + 1} tokens of KV cache; the engine has {KV_TOKENS}." in row(claimed).error_message


def test_one_that_was_to_run_alone_is_not_counted_as_there_when_another_fells_the_engine(hosted: Hosted) -> None:
    felled = asyncio.Event()

    async def crash(_call: object) -> bytes:
        await felled.wait()
        raise EngineGone("lost")

    hosted.engine.reply = crash
    crashing = hosted.submit()
    until(lambda: hosted.engine.running)
    factories.publish(*factories.make_suspects(factories.make_job()))
    suspect = hosted.run(hosted.claim())
    assert suspect.is_alone
    hosted.engine.reply = hosted.engine.forever
    hosted.host._loop.call_soon_threadsafe(felled.set)
    hosted.end()

    assert (row(crashing).status, row(crashing).engine_crashes) == (JobStatus.QUEUED, 1)
    assert row(suspect).engine_crashes == 2
