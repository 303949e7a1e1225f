"""The native API: jobs, queues, workers."""

import uuid
from datetime import timedelta
from typing import Any

import orjson
import pytest
from django.http import HttpRequest
from django.test import RequestFactory
from django.utils import timezone
from rest_framework.renderers import JSONRenderer
from rest_framework.serializers import ModelSerializer

from inference import fleet, lifecycle
from inference.api import authentication, serializers
from inference.api.native.formats import JsonRenderer
from inference.api.serializers.jobs import JobEventSerializer
from inference.broker import Broker
from inference.models import ApiKey, Job, JobEvent
from inference.states import FailureReason, JobStatus
from tests import factories
from tests.integration.api_server import QUEUES, Api, Hand

pytest_plugins = ["tests.integration.api_fixtures"]

JOBS = "/api/v1/jobs/"


def submit(api: Api, content: str = "Hello", **fields: Any) -> dict[str, Any]:
    response = api.post(JOBS, {"body": factories.make_chat(content), **fields})
    assert response.status_code == 201, response.text
    shown: dict[str, Any] = response.json()
    return shown


def test_a_job_is_accepted_at_once_and_its_result_read_later(api: Api, hand: Hand) -> None:
    response = api.post(JOBS, {"endpoint": "chat/completions", "tier": "bulk", "body": factories.make_chat()})
    accepted = response.json()
    assert response.status_code == 201
    assert response.headers["x-sluice-job-id"] == accepted["id"]
    assert (accepted["status"], accepted["tier"], accepted["length"]) == ("queued", "bulk", "short")
    assert accepted["queue"] == f"{factories.MODEL}.bulk.short"
    assert accepted["result"] is None
    hand.succeed(hand.claim(), {"choices": ["é"]})
    finished = api.get(response.headers["Location"]).json()
    assert finished["status"] == "succeeded"
    assert finished["result"] == {"choices": ["é"]}
    assert finished["error"] is None
    assert finished["attempts"] == 1
    assert finished["queue_time_seconds"] >= 0
    assert (finished["output_tokens"], finished["finish_reason"]) == (7, "stop")


def test_a_job_is_shown_as_drf_itself_would_write_it(database: None) -> None:
    new, (ran, token) = factories.make_job(), factories.make_running_job()
    lifecycle.apply([factories.make_success(token, first_token_at=timezone.now())])
    request = RequestFactory().get(JOBS, headers={"Host": "localhost"})

    for job in (new, Job.objects.get(id=ran.id)):
        said = JsonRenderer().render(serializers.job(job, request))
        assert orjson.loads(said) == orjson.loads(JSONRenderer().render(as_drf_writes_it(job, request)))


def as_drf_writes_it(job: Job, request: HttpRequest) -> dict[str, Any]:
    write = ModelSerializer[Any].to_representation
    shown = write(serializers.JobDetailSerializer(context={"request": request}), job)
    steps = [write(JobEventSerializer(), step) for step in job.history]
    return {**shown, "history": steps, "result": orjson.loads(job.result or "null")}


def test_a_job_that_failed_says_why(api: Api, hand: Hand) -> None:
    accepted = submit(api)
    hand.fail(hand.claim(), FailureReason.ENGINE_ERROR, "out of luck")
    failed = api.get(f"{JOBS}{accepted['id']}/").json()
    assert failed["error"] == {"code": "engine_error", "message": "out of luck"}
    assert failed["result"] is None


def test_a_body_may_come_without_its_length(api: Api) -> None:
    body = orjson.dumps({"body": factories.make_chat()})
    response = api.client.post(
        JOBS, content=iter([body[:9], body[9:]]), headers={"Content-Type": "application/json"}
    )
    assert response.request.headers["Transfer-Encoding"] == "chunked"
    assert response.status_code == 201, response.text


def test_many_jobs_are_accepted_together(api: Api, sluice: Broker) -> None:
    jobs = [{"tier": "bulk", "body": factories.make_chat(f"job {n}")} for n in range(250)]
    response = api.post(JOBS, {"jobs": jobs})
    assert response.status_code == 201
    ids = [uuid.UUID(job["id"]) for job in response.json()["jobs"]]
    assert sluice.held(ids) == set(ids)
    assert Job.objects.count() == 250


def test_a_list_holds_the_callers_jobs_newest_first_a_page_at_a_time(api: Api) -> None:
    ids = [submit(api, f"job {n}")["id"] for n in range(5)]
    factories.make_tenant("other")
    factories.make_job(tenant="other")
    first = api.get(JOBS, params={"limit": 3}).json()
    assert [job["id"] for job in first["results"]] == ids[:1:-1]
    assert "result" not in first["results"][0]
    second = api.get(first["next"].removeprefix(api.url)).json()
    assert [job["id"] for job in second["results"]] == ids[1::-1]
    assert second["next"] is None


def test_a_list_is_narrowed_by_status_tier_and_model(api: Api) -> None:
    bulk = submit(api, tier="bulk")
    standard = submit(api)
    api.post(f"{JOBS}{standard['id']}/cancel/")
    found = {
        "tier=bulk": [bulk],
        "status=cancelled": [standard],
        "status=queued&tier=standard": [],
        f"model={factories.MODEL}": [standard, bulk],
    }
    for query, jobs in found.items():
        shown = api.get(f"{JOBS}?{query}").json()["results"]
        assert [job["id"] for job in shown] == [job["id"] for job in jobs], query


@pytest.mark.parametrize("what", ["", "cancel/", "retry/", "events/"])
def test_another_tenants_job_does_not_exist(api: Api, what: str) -> None:
    factories.make_tenant("other")
    job = factories.make_job(tenant="other")
    method = "POST" if what in {"cancel/", "retry/"} else "GET"
    response = api.client.request(method, f"{JOBS}{job.id}/{what}")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "job_not_found")
    job.refresh_from_db()
    assert job.status == JobStatus.QUEUED


def test_a_waiting_job_is_cancelled_and_leaves_its_queue(api: Api, sluice: Broker) -> None:
    job = submit(api)
    cancelled = api.post(f"{JOBS}{job['id']}/cancel/")
    assert (cancelled.status_code, cancelled.json()["status"]) == (200, "cancelled")
    assert not sluice.held([uuid.UUID(job["id"])])
    assert api.post(f"{JOBS}{job['id']}/cancel/").json()["status"] == "cancelled"


def test_a_job_that_ended_badly_is_retried_by_hand(api: Api, hand: Hand) -> None:
    job = submit(api)
    hand.fail(hand.claim(), FailureReason.ENGINE_ERROR, "out of luck")
    assert api.post(f"{JOBS}{job['id']}/retry/").json()["status"] == "queued"
    hand.succeed(hand.claim(), {})
    assert api.get(f"{JOBS}{job['id']}/").json()["status"] == "succeeded"
    refused = api.post(f"{JOBS}{job['id']}/retry/")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "not_retryable")
    assert JobEvent.objects.filter(job_id=job["id"], kind="queued").count() == 2


def test_a_key_may_be_bound_to_tiers(api: Api) -> None:
    ApiKey.objects.get().tiers.set(["bulk"])
    refused = api.post(JOBS, {"tier": "realtime", "body": factories.make_chat()})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "tier_not_allowed")
    assert submit(api, tier="bulk")["tier"] == "bulk"


def test_a_key_bound_to_tiers_retries_no_job_of_another(api: Api) -> None:
    job = submit(api, tier="realtime")
    api.post(f"{JOBS}{job['id']}/cancel/")
    ApiKey.objects.get().tiers.set(["bulk"])
    authentication.forget()
    refused = api.post(f"{JOBS}{job['id']}/retry/")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "tier_not_allowed")
    assert Job.objects.get(id=job["id"]).status == JobStatus.CANCELLED


def test_the_queues_show_their_backlog(api: Api, hand: Hand) -> None:
    submit(api, tier="bulk")
    submit(api, tier="bulk")
    hand.claim()
    queues = {row["queue"]: row for row in api.get("/api/v1/queues/").json()}
    assert set(queues) == set(QUEUES)
    bulk = queues[f"{factories.MODEL}.bulk.short"]
    assert (bulk["model"], bulk["tier"], bulk["length"]) == (factories.MODEL, "bulk", "short")
    assert (bulk["jobs"], bulk["leases"], bulk["cap"]) == (1, 1, 10_000)
    assert bulk["tokens"] > 256
    assert bulk["backlog_seconds"] >= 0


def test_the_workers_show_their_state(api: Api) -> None:
    fleet.report(factories.make_report(in_flight=3, kv_used_tokens=500), now=timezone.now() - timedelta(seconds=2))
    [worker] = api.get("/api/v1/workers/").json()
    assert (worker["name"], worker["state"], worker["slots"], worker["in_flight"]) == ("worker-1", "ready", 32, 3)
    assert (worker["model"], worker["device"], worker["engine"]) == (factories.MODEL, "cpu", "sim")
    assert worker["serve"] == ["*"]
    assert 2 <= worker["heartbeat_age_seconds"] < 10


def test_the_workers_show_their_models_rates_as_configured_and_as_measured(api: Api, sluice: Broker) -> None:
    fleet.report(factories.make_report())
    [worker] = api.get("/api/v1/workers/").json()
    configured = {"configured_prefill_tokens_per_second": 500, "configured_decode_tokens_per_second": 10}
    as_set = {"prefill_tokens_per_second": 500, "decode_tokens_per_second": 10, "measured_calls": 0}
    assert worker["model_rates"] == as_set | configured
    factories.measure(sluice, prefill=5000.0, decode=100.0)
    [worker] = api.get("/api/v1/workers/").json()
    rates = worker["model_rates"]
    assert rates["prefill_tokens_per_second"] == pytest.approx(5000, rel=0.01)
    assert rates["decode_tokens_per_second"] == pytest.approx(100, rel=0.01)
    assert (rates["measured_calls"], rates | configured) == (19, rates)


@pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume synchronous iterators")
def test_the_schema_names_every_endpoint_and_the_docs_need_no_internet(api: Api) -> None:
    schema = api.get("/api/schema/", headers={"Accept": "application/json", "Authorization": ""}).json()
    assert {
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/models",
        "/v1/models/{name}",
        "/api/v1/jobs/",
        "/api/v1/jobs/{job_id}/",
        "/api/v1/jobs/{job_id}/cancel/",
        "/api/v1/jobs/{job_id}/retry/",
        "/api/v1/jobs/{job_id}/events/",
        "/api/v1/queues/",
        "/api/v1/workers/",
    } <= set(schema["paths"])
    page = api.get("/api/docs/", headers={"Authorization": ""})
    assert page.status_code == 200
    assert "https://" not in page.text
    script = page.text.split('src="')[1].split('"')[0]
    assert api.client.get(script).status_code == 200
