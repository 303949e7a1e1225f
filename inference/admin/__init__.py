"""Django admin: limits are edited here and live within a second; jobs, events and workers are looked at."""

from inference.admin import jobs, limits, people, site, tenants, workers

__all__ = ["jobs", "limits", "people", "site", "tenants", "workers"]
