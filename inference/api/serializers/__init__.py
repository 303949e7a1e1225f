"""What the native API reads and writes as JSON."""

from inference.api.serializers.asked import (
    MAX_PAGE,
    BulkSerializer,
    JobFilterSerializer,
    JobListSerializer,
    SubmissionSerializer,
)
from inference.api.serializers.fleet import HaltSerializer, QueueSerializer, WorkerSerializer
from inference.api.serializers.jobs import JobDetailSerializer, JobLookSerializer, JobSerializer, job, look

__all__ = [
    "MAX_PAGE",
    "BulkSerializer",
    "HaltSerializer",
    "JobDetailSerializer",
    "JobFilterSerializer",
    "JobListSerializer",
    "JobLookSerializer",
    "JobSerializer",
    "QueueSerializer",
    "SubmissionSerializer",
    "WorkerSerializer",
    "job",
    "look",
]
