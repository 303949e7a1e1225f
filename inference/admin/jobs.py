"""Jobs and their history."""

from collections.abc import Callable

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from inference import errors, submission
from inference.admin.readonly import ReadOnly
from inference.models import Job, JobEvent


class JobEventInline(ReadOnly, admin.TabularInline):
    """A job's history, below it."""

    model = JobEvent
    fields = ("at", "kind", "worker", "attempt", "claim_id", "detail")
    extra = 0


@admin.register(Job)
class JobAdmin(ReadOnly, admin.ModelAdmin):
    """Read-only, but for what a person may ask of a job: to end, or to begin anew."""

    list_display = ("id", "status", "tenant_id", "queue", "attempts", "created_at", "started_at", "finished_at")
    list_filter = ("status", "tier", "length", "model", "tenant")
    search_fields = ("=id",)
    show_full_result_count = False
    inlines = (JobEventInline,)
    actions = ("cancel", "retry")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        """Return all jobs; the long texts are read for the one that is looked at."""
        return super().get_queryset(request).defer("request", "result")

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Whether the user may cancel and retry: whoever could change jobs, were they not read-only."""
        return request.user.has_perm("inference.change_job")

    @admin.action(description="Cancel, queued or running", permissions=["operate"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        """End the chosen jobs; finished ones stay as they are."""
        self._each(request, queryset, submission.cancel)

    @admin.action(description="Retry failed, cancelled and expired jobs", permissions=["operate"])
    def retry(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        """Queue the chosen jobs anew."""
        self._each(request, queryset, submission.retry)

    def _each(self, request: HttpRequest, queryset: QuerySet[Job], verb: Callable[..., Job]) -> None:
        for job_id in queryset.values_list("id", flat=True):
            try:
                job = verb(caller=None, job_id=job_id)
            except errors.SluiceError as error:
                self.message_user(request, str(error), messages.ERROR)
            else:
                self.message_user(request, f"{job_id} is {job.status}", messages.SUCCESS)


@admin.register(JobEvent)
class JobEventAdmin(ReadOnly, admin.ModelAdmin):
    """The history of all jobs together."""

    list_display = ("at", "kind", "job_id", "worker", "attempt", "detail")
    list_filter = ("kind",)
    search_fields = ("=job__id",)
    ordering = ("-id",)
    show_full_result_count = False
