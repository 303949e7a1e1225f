"""Jobs and their history."""

import functools
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Final

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from unfold.decorators import display
from unfold.widgets import UnfoldAdminSelectWidget

from inference import consequences, errors, retiering, selectors, submission
from inference.admin import confirming
from inference.admin.base import ModelAdmin, TabularInline
from inference.admin.confirming import Asks
from inference.admin.readonly import ReadOnly
from inference.dashboard import texts
from inference.models import Job, JobEvent, Tier
from inference.states import WAITING, JobStatus
from inference.templatetags import shown

STATUSES: Final = {
    JobStatus.QUEUED: "warning",
    JobStatus.SPILLED: "warning",
    JobStatus.RUNNING: "info",
    JobStatus.SUCCEEDED: "success",
    JobStatus.FAILED: "danger",
    JobStatus.EXPIRED: "danger",
}
"""A job's statuses in the list, and their colours; one that was cancelled has none."""

OWNER_SHOWN: Final = 24
"""Characters of a tenant's name in the list."""

REFUSALS_SHOWN: Final = 3
"""Of an action on many jobs; the others are counted."""


class TierChoice(forms.Form):
    """Asks which tier jobs are to move to."""

    tier = forms.ModelChoiceField(Tier.objects, widget=UnfoldAdminSelectWidget)


class JobEventInline(ReadOnly, TabularInline):
    """A job's history, below it."""

    model = JobEvent
    fields = ("at", "kind", "worker", "attempt", "claim_id", "detail")
    extra = 0
    hide_title = True
    verbose_name_plural = "events"


@admin.register(Job)
class JobAdmin(ReadOnly, Asks, ModelAdmin):
    """Read-only, but for what a person may ask of a job: to end, or to begin anew."""

    list_display = ("short_id", "badge", "owner", "queue", "queue_time", "tokens", "attempts", "created_at")
    list_filter = ("status", "tier", "length", "model", "tenant")
    search_fields = ("=id",)
    search_help_text = "Job id, whole (x-sluice-job-id)"
    show_full_result_count = False
    inlines = (JobEventInline,)
    actions = ("cancel", "retry", "change_tier")
    readonly_fields = (
        *("key", "queue_time", "tokens", "expected", "estimate", "used", "prompt", "answer", "sent", "returned"),
    )
    fieldsets = (
        (None, {"fields": ("id", "status", "tenant", "key", "model", "tier", "length")}),
        ("Outcome", {"fields": ("finish_reason", "error_code", "error_message", "attempts", "engine_crashes")}),
        (
            "Times",
            {
                "fields": (
                    "created_at",
                    "started_at",
                    "first_token_at",
                    "finished_at",
                    "queue_time",
                    "start_deadline_at",
                    "hold_ends_at",
                )
            },
        ),
        ("Size", {"fields": ("tokens", "expected", "estimate", "used")}),
        ("Text", {"fields": ("prompt", "answer")}),
        (
            "Engine",
            {
                "classes": ("collapse",),
                "fields": ("endpoint", "streamed", "worker", "claim_id", "sent", "returned"),
            },
        ),
    )

    @admin.display(description="job", ordering="id")
    def short_id(self, job: Job) -> str:
        """Return the id as lists show it."""
        return shown.short(job.pk)

    @display(description="status", ordering="status", label=STATUSES)
    def badge(self, job: Job) -> str:
        """Return the status, to be coloured."""
        return job.status

    @admin.display(description="queue")
    def queue(self, job: Job) -> str:
        """Return the name of its queue."""
        return job.queue

    @admin.display(description="tenant")
    def owner(self, job: Job) -> SafeString:
        """Return the tenant's name, which is its key: no row is read for it. A long one is whole in the title."""
        return format_html(
            '<span title="{}">{}</span>', job.tenant_id, Truncator(job.tenant_id).chars(OWNER_SHOWN)
        )

    @admin.display(description="estimate")
    def estimate(self, job: Job) -> str:
        """Return the service time that was expected."""
        return shown.seconds(job.estimate_seconds)

    @admin.display(description="used")
    def used(self, job: Job) -> str:
        """Return the service time of what it brought, by the rates of the estimate."""
        return shown.seconds(selectors.used_seconds(job))

    @admin.display(description="queue time")
    def queue_time(self, job: Job) -> str:
        """Return how long the job waited; so far, if it waits."""
        waits = job.status in WAITING
        return f"{shown.age(job.created_at)} so far" if waits else shown.seconds(job.queue_time_seconds)

    @admin.display(description="tokens in, out")
    def tokens(self, job: Job) -> str:
        """Return the tokens of prompt and answer."""
        return f"{shown.count(job.prompt_tokens)}, {shown.count(job.output_tokens)}"

    @admin.display(description="API key")
    def key(self, job: Job) -> str:
        """Return whose key sent it, or where else it came from."""
        return str(job.api_key) if job.api_key else "dashboard"

    @admin.display(description="expected output tokens")
    def expected(self, job: Job) -> str:
        """Return the tokens that its answer was expected to have."""
        return shown.count(job.expected_tokens)

    @admin.display
    def prompt(self, job: Job) -> SafeString:
        """Return what was asked, to be read."""
        return _folded(texts.prompt(job))

    @admin.display
    def answer(self, job: Job) -> SafeString:
        """Return what the engine said, to be read."""
        return _folded(texts.answer(job))

    @admin.display(description="request")
    def sent(self, job: Job) -> SafeString:
        """Return what the engine gets."""
        return _folded(job.request, "code")

    @admin.display(description="result")
    def returned(self, job: Job) -> SafeString:
        """Return what the engine gave."""
        return _folded(job.result, "code")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Job], search_term: str
    ) -> tuple[QuerySet[Job], bool]:
        """Find a job by its id; what is none finds nothing, and is told."""
        try:
            wanted = uuid.UUID(search_term.strip()) if search_term.strip() else None
        except ValueError:
            self.message_user(request, f"{search_term[:80]!r} is no job id.", messages.WARNING)
            return queryset.none(), False
        return (queryset.filter(id=wanted) if wanted else queryset), False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        """Return all jobs; the long texts are read for the one that is looked at."""
        jobs: QuerySet[Job] = super().get_queryset(request)
        return jobs.defer("request", "result")

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Whether the user may cancel and retry: whoever could change jobs, were they not read-only."""
        return request.user.has_perm("inference.change_job")

    @admin.action(description="Cancel, queued or running", permissions=["operate"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
        """End the chosen jobs, once their user knows how many that are; finished ones stay as they are."""
        told = _would_end(queryset)
        if told and not confirming.is_confirmed(request):
            return self.ask(request, [told])
        self._each(request, queryset, functools.partial(submission.cancel, caller=None), "Cancelled.")
        return None

    @admin.action(description="Retry failed, cancelled and expired jobs", permissions=["operate"])
    def retry(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        """Queue the chosen jobs anew."""
        self._each(request, queryset, functools.partial(submission.retry, caller=None), "Queued anew.")

    @admin.action(description="Change the tier of queued jobs", permissions=["operate"])
    def change_tier(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
        """Move the chosen jobs to a tier that is asked for; those that no longer wait stay."""
        form = TierChoice(request.POST if confirming.is_confirmed(request) else None)
        if not form.is_valid():
            count = queryset.count()
            told = [f"Move {count} job{'' if count == 1 else 's'} to another tier; they keep their arrival."]
            return self.ask(request, told, form)
        tier = form.cleaned_data["tier"].name
        verb = functools.partial(retiering.change_tier, tier=tier)
        self._each(request, queryset, verb, f"Moved to tier {tier}.", f"moved to tier {tier}")
        return None

    def _each(
        self, request: HttpRequest, queryset: QuerySet[Job], verb: Callable[..., Job], said: str, done: str = ""
    ) -> None:
        """Do it to each job; who did is in the admin's log, since clients may read a job's own events.

        `done` is what was done to them, where how they stand then does not tell.
        """
        now: dict[uuid.UUID, str] = {}
        refused: list[str] = []
        for job_id in queryset.values_list("id", flat=True):
            try:
                job = verb(job_id=job_id)
            except errors.SluiceError as error:
                refused.append(f"{error}" if str(job_id) in str(error) else f"job {job_id}: {error}")
                continue
            now[job_id] = job.status
            self.log_change(request, job, said)
        self._tell(request, now, refused, done)

    def _tell(self, request: HttpRequest, now: dict[uuid.UUID, str], refused: list[str], done: str) -> None:
        """Say in a line how many jobs are what now, and in a few what was refused."""
        if now:
            self.message_user(request, _summary(now, done), messages.SUCCESS)
        for told in refused[:REFUSALS_SHOWN]:
            self.message_user(request, told, messages.ERROR)
        if more := len(refused[REFUSALS_SHOWN:]):
            self.message_user(request, f"{more} more {'was' if more == 1 else 'were'} refused.", messages.ERROR)


def _folded(text: str | None, how: str = "") -> SafeString:
    """Return a text of any length in a box that scrolls."""
    return (
        format_html('<div class="long-text {}" tabindex="0">{}</div>', how, text)
        if text
        else SafeString(shown.NONE)
    )


def _would_end(jobs: QuerySet[Job]) -> str:
    """Return what a cancel of these jobs does; empty if none of them lives."""
    counts = Counter(jobs.values_list("status", flat=True))
    waiting, running = sum(counts[status] for status in WAITING), counts[JobStatus.RUNNING]
    finished = counts.total() - waiting - running
    return consequences.cancelled(waiting, running, finished) if waiting or running else ""


def _summary(now: dict[uuid.UUID, str], done: str) -> str:
    """Return which job is what now, or how many are; first what was done, if there is a word for it."""
    stand = ", ".join(f"{count} {status}" for status, count in Counter(now.values()).most_common())
    if len(now) == 1:
        [(job_id, status)] = now.items()
        return f"{job_id} {done}; it is {status}" if done else f"{job_id} is {status}"
    return f"{len(now)} jobs {done}: {stand}" if done else f"Jobs: {stand}"


@admin.register(JobEvent)
class JobEventAdmin(ReadOnly, ModelAdmin):
    """The history of all jobs together."""

    list_display = ("at", "kind", "of_job", "worker", "attempt", "detail")
    list_filter = ("kind",)
    search_fields = ("=job__id",)
    ordering = ("-id",)
    show_full_result_count = False

    @admin.display(description="job", ordering="job_id")
    def of_job(self, event: JobEvent) -> SafeString:
        """Return the job's id as lists show it, with a link to the job."""
        address = reverse("admin:inference_job_change", args=[event.job_id])
        return format_html('<a href="{}">{}</a>', address, shown.short(event.job_id))
