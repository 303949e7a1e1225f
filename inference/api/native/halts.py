"""Pause, resume and drain of queues and workers, by keys of operators alone."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from inference import errors, halts
from inference.api import serializers
from inference.halts import Action
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
    class QueueHalt(APIView):
        @extend_schema(
            operation_id=f"queues_{action}",
            description=MEANS[action],
            request=None,
            responses=serializers.HaltSerializer,
        )
        def post(self, request: Request, queue: str) -> Response:
            by = operator(request)
            [row] = halts.halt_queues(action, [halts.queue_named(queue)], by=by)
            return Response(serializers.HaltSerializer(row).data)

    return QueueHalt.as_view()


def _worker_view(action: Action) -> Callable[..., Any]:
    class WorkerHalt(APIView):
        @extend_schema(
            operation_id=f"workers_{action}",
            description=MEANS[action],
            request=None,
            responses=serializers.HaltSerializer,
        )
        def post(self, request: Request, worker: str) -> Response:
            by = operator(request)
            [row] = halts.halt_workers(action, [halts.worker_named(worker)], by=by)
            return Response(serializers.HaltSerializer(row).data)

    return WorkerHalt.as_view()


QUEUE_VIEWS: Final = {action: _queue_view(action) for action in Action}
WORKER_VIEWS: Final = {action: _worker_view(action) for action in Action}
"""By what they do; the last part of their address."""
