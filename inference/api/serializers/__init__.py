"""What the native API reads and writes as JSON."""

from inference.api.serializers.asked import (
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
    BudgetSerializer,
    SpanSerializer,
    SumsSerializer,
    UsageAskedSerializer,
    UsageRowSerializer,
)

__all__ = [
    "MAX_PAGE",
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
