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
from inference.models import ApiKey, QueueLimit, WorkerLimit
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
    name = ApiKey.objects.filter(pk=caller.api_key_id).values_list("name", flat=True).first()
    if name is None:  # deleted within the second that keys are cached for
        raise errors.Unauthenticated("Incorrect API key.")
    return f"key {name} of {caller.tenant}"


def _queue(action: Action, name: str, by: str) -> QueueLimit:
    [row] = halts.halt_queues(action, [halts.queue_named(name)], by=by)
    return row


def _worker(action: Action, name: str, by: str) -> WorkerLimit:
    [row] = halts.halt_workers(action, [halts.worker_named(name)], by=by)
    return row


def _view(
    nouns: str, action: Action, halt: Callable[[Action, str, str], QueueLimit | WorkerLimit]
) -> Callable[..., Any]:
    class Halt(APIView):
        @extend_schema(
            operation_id=f"{nouns}_{action}",
            description=MEANS[action],
            request=None,
            responses=serializers.HaltSerializer,
        )
        def post(self, request: Request, name: str) -> Response:
            by = operator(request)
            serializers.refuse_body(request.data)
            return Response(serializers.HaltSerializer(halt(action, name, by)).data)

    return Halt.as_view()


QUEUE_VIEWS: Final = {action: _view("queues", action, _queue) for action in Action}
WORKER_VIEWS: Final = {action: _view("workers", action, _worker) for action in Action}
"""By what they do; the last part of their address."""
