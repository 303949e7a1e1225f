"""What a key with limits is told with each answer of `/v1`."""

from datetime import timedelta

from django.utils import timezone

from inference import fleet, lifecycle
from inference.api import authentication
from inference.broker import Broker
from inference.models import ApiKey, Job, QueueLimit, Tier
from tests import factories, waiting
from tests.integration.api_server import Api, in_background

pytest_plugins = ["tests.integration.api_fixtures"]

CHAT = "/v1/chat/completions"


def test_answers_to_a_key_with_limits_tell_how_its_rates_stand(api: Api) -> None:
    ApiKey.objects.update(requests_per_minute=2)
    authentication.forget()
    accepted = api.post(CHAT, factories.make_chat(), headers={"Prefer": "respond-async"})
    assert accepted.headers["x-ratelimit-limit-requests"] == "2"
    assert accepted.headers["x-ratelimit-remaining-requests"] == "1"
    assert accepted.headers["x-ratelimit-reset-requests"].endswith("s")
    assert "x-ratelimit-limit-tokens" not in accepted.headers
    api.post(CHAT, factories.make_chat(), headers={"Prefer": "respond-async"})
    refused = api.post(CHAT, factories.make_chat())
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    assert refused.headers["x-ratelimit-remaining-requests"] == "0"
    assert 1 <= int(refused.headers["Retry-After"]) <= 61


def test_a_call_on_hold_that_does_not_start_in_time_is_refused(api: Api, sluice: Broker) -> None:
    long_ago = timezone.now() - timedelta(hours=1)
    fleet.report(factories.make_report(ready_at=long_ago, started_at=long_ago))  # else no deadline passes
    Tier.objects.filter(name="standard").update(on_full="hold", hold_seconds=7)
    first = factories.make_job()
    factories.publish(first)
    QueueLimit.objects.create(queue=first.queue, max_jobs=1)
    with in_background(api) as call:
        waiting.until(lambda: Job.objects.count() == 2)
        job = Job.objects.exclude(id=first.id).get()
        Job.objects.filter(id=job.id).update(queued_at=long_ago, start_deadline_at=long_ago + timedelta(seconds=7))
        assert lifecycle.apply([lifecycle.Expire(job.id)])[0].moved
        sluice.cancel(job.id, status="expired")
    error = call.response.json()["error"]
    assert (call.response.status_code, error["code"], error["reason"]) == (429, "queue_full", "held")
    assert call.response.headers["Retry-After"] == "7"
