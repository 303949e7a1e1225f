"""Pause, resume and drain through the API; and what it says of those who wait."""

import pytest

from inference import fleet, halts, snapshot
from inference.api import authentication
from inference.halts import Action
from inference.models import ApiKey, QueueLimit, ServedModel, WorkerLimit
from inference.states import WorkerState
from tests import factories
from tests.integration.api_server import Api

pytest_plugins = ["tests.integration.api_fixtures"]

QUEUE = f"{factories.MODEL}.standard.short"


@pytest.fixture
def operator(api: Api) -> Api:
    """The same server, with an operator's key."""
    ApiKey.objects.update(is_operator=True)
    authentication.forget()
    return api


@pytest.mark.parametrize("path", [f"queues/{QUEUE}", "workers/worker-1"])
def test_an_ordinary_key_may_not(api: Api, path: str) -> None:
    fleet.report(factories.make_report(name="worker-1"))
    for action in ("pause", "resume", "drain"):
        refused = api.post(f"/api/v1/{path}/{action}/", {})
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "operator_required")
    assert not QueueLimit.objects.exists()
    assert not WorkerLimit.objects.exists()


def test_an_operators_key_pauses_and_resumes_a_queue(operator: Api) -> None:
    paused = operator.post(f"/api/v1/queues/{QUEUE}/pause/", {})
    assert paused.status_code == 200, paused.text
    assert paused.json() | {"halted_at": None} == {
        "name": QUEUE,
        "is_paused": True,
        "is_draining": False,
        "halted_by": "key test of default",
        "halted_at": None,
    }
    [row] = [row for row in operator.get("/api/v1/queues/").json() if row["queue"] == QUEUE]
    assert row["is_paused"] is True
    assert operator.post(f"/api/v1/queues/{QUEUE}/resume/", {}).json()["is_paused"] is False


def test_a_queue_of_a_model_with_a_slash_can_be_named(operator: Api) -> None:
    ServedModel.objects.create(name="org/model-7b", source="x")
    drained = operator.post("/api/v1/queues/org/model-7b.bulk.long/drain/", {})
    assert (drained.status_code, drained.json()["is_draining"]) == (200, True)


def test_a_worker_is_drained_by_its_name(operator: Api) -> None:
    fleet.report(factories.make_report(name="worker-1@here"))
    assert operator.post("/api/v1/workers/worker-1@here/drain/", {}).json()["is_draining"] is True


def test_a_pause_until_noon_is_refused_by_its_field(operator: Api) -> None:
    refused = operator.post(f"/api/v1/queues/{QUEUE}/pause/", {"untill": "noon"})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "untill")
    assert not QueueLimit.objects.filter(queue=QUEUE, is_paused=True).exists()


def test_what_is_not_there_is_told_with_what_there_is(operator: Api) -> None:
    refused = operator.post("/api/v1/queues/*.bulk.*/pause/", {})
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "queue_not_found")
    assert QUEUE in refused.json()["error"]["message"]
    assert operator.post("/api/v1/workers/nobody/pause/", {}).json()["error"]["code"] == "worker_not_found"


def submit(api: Api) -> str:
    return str(api.post("/api/v1/jobs/", {"body": factories.make_chat()}).json()["id"])


def test_a_queued_job_says_why_it_waits_and_where_it_is(operator: Api) -> None:
    job_id = submit(operator)
    waiting = operator.get(f"/api/v1/jobs/{job_id}/").json()["waiting"]
    assert (waiting["reason"], waiting["position"], waiting["expected_start"]) == ("no_worker", 1, None)
    fleet.report(factories.make_report())
    waiting = operator.get(f"/api/v1/jobs/{job_id}/").json()["waiting"]
    assert waiting["reason"] == "next"
    assert waiting["expected_start"] is not None
    operator.post(f"/api/v1/queues/{QUEUE}/pause/", {})
    assert operator.get(f"/api/v1/jobs/{job_id}/").json()["waiting"]["reason"] == "paused"


@pytest.mark.parametrize("is_operator", [True, False])
def test_who_paused_is_told_to_operators_alone(api: Api, *, is_operator: bool) -> None:
    ApiKey.objects.update(is_operator=is_operator)
    job_id = submit(api)
    fleet.report(factories.make_report(name="w@here", state=WorkerState.PAUSED, state_detail="2 in flight"))
    halts.halt_workers(Action.PAUSE, ["w@here"], by="user ann")
    held_by_worker = told(api, job_id)
    halts.halt_queues(Action.PAUSE, [QUEUE], by="user ann")
    signed, by = ("by user ann, ", " by user ann") if is_operator else ("", "")
    worker = f"w@here is paused ({signed}2 in flight)"
    assert held_by_worker == {"worker": f"{signed}2 in flight", "job": worker, "queue": worker}
    paused = f"queue {QUEUE} is paused{by}"
    assert told(api, job_id) == {"worker": f"{signed}2 in flight", "job": paused, "queue": paused}


def told(api: Api, job_id: str) -> dict[str, str]:
    snapshot.forget()
    [queue] = [row for row in api.get("/api/v1/queues/").json() if row["queue"] == QUEUE]
    [worker] = api.get("/api/v1/workers/").json()
    job = api.get(f"/api/v1/jobs/{job_id}/").json()
    return {
        "worker": worker["state_detail"],
        "job": job["waiting"]["detail"],
        "queue": queue["waiting_detail"],
    }


def test_a_job_that_ended_waits_for_nothing(api: Api) -> None:
    job_id = submit(api)
    api.post(f"/api/v1/jobs/{job_id}/cancel/", {})
    assert api.get(f"/api/v1/jobs/{job_id}/").json()["waiting"] is None


def test_a_queue_says_what_holds_it_and_how_long_a_job_would_wait(api: Api) -> None:
    submit(api)
    rows = {row["queue"]: row for row in api.get("/api/v1/queues/").json()}
    assert rows[QUEUE]["waiting_reason"] == "no_worker"
    assert rows[QUEUE]["expected_wait_seconds"] is None


def test_a_draining_queue_answers_503_and_when_to_come_back(operator: Api) -> None:
    operator.post(f"/api/v1/queues/{QUEUE}/drain/", {})
    refused = operator.post("/v1/chat/completions", factories.make_chat())
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "queue_draining")
    assert refused.headers["Retry-After"] == "30"
