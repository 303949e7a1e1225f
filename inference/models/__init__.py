"""The tables. Fields, constraints and derived properties only; `lifecycle` is the one writer of a job's status."""

from inference.models.classes import LengthClass, Tier
from inference.models.halts import Halted, QueueLimit, WorkerLimit
from inference.models.jobs import Job, JobEvent
from inference.models.served import ServedModel
from inference.models.tenants import ApiKey, Membership, Tenant
from inference.models.validators import list_of_strings, queue_name
from inference.models.workers import Worker

__all__ = [
    "ApiKey",
    "Halted",
    "Job",
    "JobEvent",
    "LengthClass",
    "Membership",
    "QueueLimit",
    "ServedModel",
    "Tenant",
    "Tier",
    "Worker",
    "WorkerLimit",
    "list_of_strings",
    "queue_name",
]
