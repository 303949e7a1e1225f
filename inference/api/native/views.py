"""The native API: jobs, queues, workers. Synchronous DRF views, run in the API's pool of threads."""

import threading
import uuid
from collections.abc import Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse, PolymorphicProxySerializer, extend_schema
from rest_framework.exceptions import NotFound
from rest_framework.generics import GenericAPIView
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from inference import errors, fields, selectors, submission
from inference.api import serializers
from inference.api.handler import JOB_ID_HEADER
from inference.limits import MAX_JOBS_PER_CALL
from inference.models import Job
from inference.states import Endpoint
from inference.submission import Caller, Submission


class NewestFirst(CursorPagination):
    """Pages that stay true while jobs come in: ids grow with time."""

    ordering = "-id"
    page_size = 50
    page_size_query_param = "limit"
    max_page_size = serializers.MAX_PAGE

    def paginate_queryset(
        self, queryset: QuerySet[Any] | Sequence[Any], request: Request, view: APIView | None = None
    ) -> list[Any] | None:
        """Return the page. Raises errors.InvalidRequest for a cursor that leads to no job."""
        try:
            return super().paginate_queryset(queryset, request, view)
        except (NotFound, ValidationError):
            message = "cursor: leads to no page; take it as `next` or `previous` of a page gives it"
            raise errors.InvalidRequest(message, param="cursor") from None


class Jobs(GenericAPIView[Job]):
    """The caller's jobs."""

    serializer_class = serializers.JobSerializer
    pagination_class = NewestFirst

    def get_queryset(self) -> QuerySet[Job]:
        """Return the caller's jobs, narrowed as asked; without the long texts."""
        asked = serializers.JobListSerializer(data=self.request.query_params.dict())
        asked.is_valid(raise_exception=True)
        mine = selectors.jobs_for(_caller(self.request).tenant)
        return mine.filter(**asked.filters).defer("request", "result")

    @extend_schema(operation_id="jobs_list", parameters=[serializers.JobFilterSerializer])
    def get(self, request: Request) -> Response:  # noqa: ARG002 - DRF's signature
        """List jobs, newest first, a page at a time."""
        page = self.paginate_queryset(self.get_queryset())
        return self.get_paginated_response(self.get_serializer(page, many=True).data)

    @extend_schema(
        operation_id="jobs_submit",
        request=PolymorphicProxySerializer(
            "OneOrManyJobs",
            [serializers.SubmissionSerializer, serializers.BulkSerializer],
            resource_type_field_name=None,
        ),
        responses={201: OpenApiResponse(serializers.JobDetailSerializer, 'The job; for many, `{"jobs": [...]}`.')},
    )
    def post(self, request: Request) -> Response:
        """Submit one job, or up to 1,000 as `{"jobs": [...]}`: all of them or none. Answers without waiting."""
        if "jobs" in request.data:
            return self._submit_many(request)
        accepted = submission.submit_many(caller=_caller(request), items=[_one(request.data)])[0]
        shown = serializers.job(accepted, request)
        headers = {JOB_ID_HEADER: str(accepted.pk), "Location": f"{request.path}{accepted.pk}/"}
        return Response(shown, status=201, headers=headers)

    def _submit_many(self, request: Request) -> Response:
        accepted = submission.submit_many(caller=_caller(request), items=_many(request.data))
        return Response({"jobs": self.get_serializer(accepted, many=True).data}, status=201)


class JobDetail(APIView):
    """One of the caller's jobs."""

    @extend_schema(operation_id="jobs_get", responses=serializers.JobLookSerializer)
    def get(self, request: Request, job_id: uuid.UUID) -> Response:
        """Return the job, with its result once it succeeded, and while it is queued with why it waits."""
        caller = _caller(request)
        job = selectors.job_for(caller.tenant, job_id)
        return Response(serializers.look(job, request, names_operators=caller.is_operator))


class JobCancel(APIView):
    """Ends a job."""

    @extend_schema(operation_id="jobs_cancel", request=None, responses=serializers.JobDetailSerializer)
    def post(self, request: Request, job_id: uuid.UUID) -> Response:
        """Cancel the job, queued or running, and return it. One that has ended stays as it is."""
        serializers.refuse_body(request.data)
        return Response(serializers.job(submission.cancel(caller=_caller(request), job_id=job_id), request))


class JobRetry(APIView):
    """Begins a job anew."""

    @extend_schema(operation_id="jobs_retry", request=None, responses=serializers.JobDetailSerializer)
    def post(self, request: Request, job_id: uuid.UUID) -> Response:
        """Queue a failed, cancelled or expired job again, with all its attempts, and return it."""
        serializers.refuse_body(request.data)
        return Response(serializers.job(submission.retry(caller=_caller(request), job_id=job_id), request))


class Queues(APIView):
    """The queues."""

    @extend_schema(operation_id="queues_list", responses=serializers.QueueSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List every queue with its backlog in jobs, tokens and seconds, and with what holds its first job."""
        rows = selectors.queue_rows(names_operators=_caller(request).is_operator)
        return Response(serializers.QueueSerializer(rows, many=True).data)


class Workers(APIView):
    """The workers."""

    @extend_schema(operation_id="workers_list", responses=serializers.WorkerSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List every worker as it last reported itself."""
        rows = selectors.worker_rows(names_operators=_caller(request).is_operator)
        rates = {"rates": selectors.rates_rows()}
        return Response(serializers.WorkerSerializer(rows, many=True, context=rates).data)


def _caller(request: Request) -> Caller:
    caller: Caller = request.user.caller  # type: ignore[union-attr]  # it is a KeyHolder
    return caller


class _Made(threading.local):
    """A serializer for each thread: making its fields takes as long as all that it does with a submission."""

    def __init__(self) -> None:
        self.submission = serializers.SubmissionSerializer()


_made = _Made()


def _one(data: Any) -> Submission:
    return _submission(_made.submission.run_validation(data))


def _many(data: Any) -> list[Submission]:
    jobs = data["jobs"]
    if not isinstance(jobs, list) or not 1 <= len(jobs) <= MAX_JOBS_PER_CALL:
        raise fields.wrong("jobs", f"must be a list of 1 to {MAX_JOBS_PER_CALL} jobs", jobs)
    checked = serializers.BulkSerializer(data=data)
    checked.is_valid(raise_exception=True)
    return [_submission(item) for item in checked.validated_data["jobs"]]


def _submission(item: dict[str, Any]) -> Submission:
    return Submission(endpoint=Endpoint(item["endpoint"]), body=item["body"], tier=item["tier"])
