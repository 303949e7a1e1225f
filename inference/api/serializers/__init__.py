"""What the native API reads and writes as JSON."""

from inference.api.serializers.asked import (
    JOB_LIST,
    MAX_PAGE,
    BulkSerializer,
    JobFilterSerializer,
    JobListSerializer,
    SubmissionSerializer,
    refuse_body,
)
from inference.api.serializers.fleet import HaltSerializer, QueueSerializer, WorkerSerializer
from inference.api.serializers.jobs import JobDetailSerializer, JobLookSerializer, JobSerializer, job, look
from inference.api.serializers.usage import (
    USAGE,
    USAGE_SPAN,
    BudgetSerializer,
    SpanSerializer,
    SumsSerializer,
    UsageAskedSerializer,
    UsageRowSerializer,
)

__all__ = [
    "JOB_LIST",
    "MAX_PAGE",
    "USAGE",
    "USAGE_SPAN",
    "BudgetSerializer",
    "BulkSerializer",
    "HaltSerializer",
    "JobDetailSerializer",
    "JobFilterSerializer",
    "JobListSerializer",
    "JobLookSerializer",
    "JobSerializer",
    "QueueSerializer",
    "SpanSerializer",
    "SubmissionSerializer",
    "SumsSerializer",
    "UsageAskedSerializer",
    "UsageRowSerializer",
    "WorkerSerializer",
    "job",
    "look",
    "refuse_body",
]
