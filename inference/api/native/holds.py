"""Pause, resume and drain of queues and workers, by keys of operators alone."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from inference import errors, holds
from inference.api import serializers
from inference.holds import Action
from inference.models import ApiKey
from inference.submission import Caller

MEANS: Final[Mapping[Action, str]] = {
    Action.PAUSE: "Have nothing claimed any more. What runs goes on; a queue still takes jobs.",
    Action.DRAIN: "Work off what is there: a queue takes no more jobs, a worker claims no more.",
    Action.RESUME: "End a pause and a drain.",
}


def operator(request: Request) -> str:
    """Return who acts, for log and admin. Raises errors.Forbidden unless the key is an operator's."""
    caller: Caller = request.user.caller  # type: ignore[union-attr]  # it is a KeyHolder
    if not caller.is_operator:
        message = "This key may not pause, resume or drain: an admin can make it an operator's."
        raise errors.Forbidden(message, code="operator_required")
    return f"key {ApiKey.objects.values_list('name', flat=True).get(pk=caller.api_key_id)} of {caller.tenant}"


def _queue_view(action: Action) -> Callable[..., Any]:
    class QueueHold(APIView):
        @extend_schema(
            operation_id=f"queues_{action}",
            description=MEANS[action],
            request=None,
            responses=serializers.HoldSerializer,
        )
        def post(self, request: Request, queue: str) -> Response:
            by = operator(request)
            [row] = holds.hold_queues(action, [holds.queue_named(queue)], by=by)
            return Response(serializers.HoldSerializer(row).data)

    return QueueHold.as_view()


def _worker_view(action: Action) -> Callable[..., Any]:
    class WorkerHold(APIView):
        @extend_schema(
            operation_id=f"workers_{action}",
            description=MEANS[action],
            request=None,
            responses=serializers.HoldSerializer,
        )
        def post(self, request: Request, worker: str) -> Response:
            by = operator(request)
            [row] = holds.hold_workers(action, [holds.worker_named(worker)], by=by)
            return Response(serializers.HoldSerializer(row).data)

    return WorkerHold.as_view()


QUEUE_VIEWS: Final = {action: _queue_view(action) for action in Action}
WORKER_VIEWS: Final = {action: _worker_view(action) for action in Action}
"""By what they do; the last part of their address."""
