"""The OpenAI-compatible endpoints. Asynchronous: a waiting request costs a task, not a thread."""

from collections.abc import Mapping
from typing import Any

import orjson
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from inference import errors, executor, results, snapshot, submission
from inference.api import authentication, bodies, serializers, sse
from inference.api.handler import JOB_ID_HEADER, ApiRequest
from inference.api.v1 import streams
from inference.api.v1.calls import Call, answer, new_job_id
from inference.broker.types import CHUNK, GAP
from inference.models import Job
from inference.states import Endpoint
from inference.submission import Caller

TIER_HEADER = "x-sluice-tier"


async def chat_completions(request: ApiRequest) -> HttpResponseBase:
    """POST /v1/chat/completions."""
    return await _generate(request, Endpoint.CHAT)


async def completions(request: ApiRequest) -> HttpResponseBase:
    """POST /v1/completions."""
    return await _generate(request, Endpoint.COMPLETIONS)


async def models(request: HttpRequest) -> HttpResponse:
    """GET /v1/models: what is served, whether or not a worker is up."""
    await authentication.caller(request)
    limits = await executor.run(snapshot.limits)
    return _json({"object": "list", "data": [_model(name, m.max_model_len) for name, m in limits.models.items()]})


async def model(request: HttpRequest, name: str) -> HttpResponse:
    """GET /v1/models/{name}."""
    await authentication.caller(request)
    limits = await executor.run(snapshot.limits)
    if name not in limits.models:
        raise errors.NotFound(f"model: `{name}` does not exist", code="model_not_found", param="model")
    return _json(_model(name, limits.models[name].max_model_len))


async def _generate(request: ApiRequest, endpoint: Endpoint) -> HttpResponseBase:
    caller = await authentication.caller(request)
    body = await bodies.read(request.take_body())
    if _prefers_async(request):
        return await _detached(request, caller, endpoint, body)
    mailbox = results.mailbox()
    call = Call(caller, request.closing.enter_context(mailbox.listen(new_job_id())))
    request.closing.push_async_callback(call.abandon)
    accepted = await call.submit(endpoint, body, mailbox=mailbox.name, body_bytes=request.body_bytes)
    del body  # it is on record, and the client may wait for long
    request.room.give()
    own = {JOB_ID_HEADER: str(call.inbox.job_id), TIER_HEADER: accepted.tier}
    request.answer_headers |= {**own, **accepted.rate_headers}
    return await _streamed(call) if accepted.streamed else _answer(await call.finish(), accepted.service_tier)


async def _streamed(call: Call) -> sse.EventStream:
    heard = await call.start()
    if heard[0].kind == CHUNK:
        return sse.EventStream(streams.relay(call, heard))
    # Before it said anything it ended, or its beginning is lost: an error with a status of its own, since no
    # header is out yet.
    if heard[0].kind == GAP:
        call.is_settled = True  # it goes on, for its record
    else:
        answer(await call.row())
    raise errors.JobFailed("The output is lost; ask for the job by its id.", code="output_lost")


async def _detached(
    request: ApiRequest, caller: Caller, endpoint: Endpoint, body: Mapping[str, Any]
) -> HttpResponse:
    """`Prefer: respond-async`: the job outlives the connection, and is answered with itself."""
    shown, rate_headers = await executor.run_for(
        request.body_bytes, _submit_detached, request, caller, endpoint, body
    )
    request.answer_headers |= {
        JOB_ID_HEADER: str(shown["id"]),
        TIER_HEADER: shown["tier"],
        "Preference-Applied": "respond-async",
        **rate_headers,
    }
    return _json(shown, status=202)


def _submit_detached(
    request: ApiRequest, caller: Caller, endpoint: Endpoint, body: Mapping[str, Any]
) -> tuple[dict[str, Any], Mapping[str, str]]:
    taken = submission.take(caller=caller, items=[submission.Submission(endpoint=endpoint, body=body)])
    return serializers.job(taken.jobs[0], request), taken.headers


def _answer(job: Job, service_tier: str) -> HttpResponse:
    """Return the engine's answer, with the tier that was used."""
    return _json(orjson.loads(answer(job)) | {"service_tier": service_tier})


def _model(name: str, max_model_len: int) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "sluice", "max_model_len": max_model_len}


def _prefers_async(request: HttpRequest) -> bool:
    preferences = request.headers.get("Prefer", "").split(",")
    return any(p.partition(";")[0].strip().lower() == "respond-async" for p in preferences)


def _json(value: Any, *, status: int = 200) -> HttpResponse:
    said = orjson.dumps(value, option=orjson.OPT_UTC_Z)
    return HttpResponse(said, status=status, content_type="application/json")
