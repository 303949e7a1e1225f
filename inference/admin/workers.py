"""Workers as they last reported themselves."""

from django.contrib import admin

from inference.admin.readonly import ReadOnly
from inference.models import Worker


@admin.register(Worker)
class WorkerAdmin(ReadOnly, admin.ModelAdmin):
    """The registry of workers."""

    list_display = ("name", "model", "engine", "device", "state", "in_flight", "slots", "heartbeat_at")
    list_filter = ("state", "model")
