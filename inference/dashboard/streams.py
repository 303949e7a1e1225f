"""A job's events for the browser that watches it. On the lean handler: an open stream holds no thread."""

import uuid

from django.http.response import HttpResponseBase

from inference import executor
from inference.api.handler import ApiRequest
from inference.api.native import events
from inference.dashboard import access


async def job_stream(request: ApiRequest, job_id: uuid.UUID) -> HttpResponseBase:
    """GET /dashboard/streams/{id}/: what `/api/v1/jobs/{id}/events/` tells, for a session in place of a key."""
    caller = await executor.run(access.caller_by_cookie, request)
    return await events.stream(request, caller.tenant, job_id)
