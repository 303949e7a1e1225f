"""The tables. Fields, constraints and derived properties only; `lifecycle` is the one writer of a job's status."""

from inference.models.classes import LengthClass, Tier
from inference.models.edits import Edit, EditKind
from inference.models.halts import Halted, QueueLimit, WorkerLimit
from inference.models.jobs import Job, JobEvent
from inference.models.served import ServedModel
from inference.models.tenants import ApiKey, Membership, Tenant
from inference.models.usage import Budget, Price, Usage
from inference.models.validators import list_of_strings, queue_name
from inference.models.workers import Worker

__all__ = [
    "ApiKey",
    "Budget",
    "Edit",
    "EditKind",
    "Halted",
    "Job",
    "JobEvent",
    "LengthClass",
    "Membership",
    "Price",
    "QueueLimit",
    "ServedModel",
    "Tenant",
    "Tier",
    "Usage",
    "Worker",
    "WorkerLimit",
    "list_of_strings",
    "queue_name",
]
