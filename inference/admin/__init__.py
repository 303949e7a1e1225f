"""Django admin: limits are edited here and live within a second; jobs, events and workers are looked at."""

from inference.admin import edits, jobs, limits, people, prices, served, tenants, workers

__all__ = ["edits", "jobs", "limits", "people", "prices", "served", "tenants", "workers"]
