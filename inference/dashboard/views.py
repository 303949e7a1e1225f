"""The page and its parts. Each part is rendered here, and put into the page by htmx (`static/dashboard/`)."""

import uuid
from contextlib import suppress
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from inference import broker, errors, selectors, snapshot, submission
from inference.api.errors import headers
from inference.dashboard import access, texts
from inference.dashboard.forms import PromptForm
from inference.models import Job
from inference.outlook import Outlook
from inference.states import Endpoint
from inference.submission import Caller

JOBS_SHOWN: Final = 14
"""At a time; older ones follow page by page."""


@require_GET
@access.member
def home(request: HttpRequest, caller: Caller) -> HttpResponse:
    """Show the whole page; `?job=` opens a job on it."""
    wanted = request.GET.get("job")
    opened = _shown(selectors.job_for(caller.tenant, _id(wanted)), caller) if wanted else {}
    form = PromptForm(limits=snapshot.limits())
    return render(
        request, "dashboard/home.html", {"form": form, "caller": caller, **opened, **_board(request, caller)}
    )


@require_GET
@access.member
def board(request: HttpRequest, caller: Caller) -> HttpResponse:
    """Show what changes all the time. The page asks for it again and again while it is looked at."""
    return render(request, "dashboard/_board.html", _board(request, caller))


@require_POST
@access.member
def submit(request: HttpRequest, caller: Caller) -> HttpResponse:
    """Take a prompt in: answers with the job, to be followed, or with the form and what is wrong."""
    form = PromptForm(request.POST, limits=snapshot.limits())
    if not form.is_valid():
        return _refused(request, form, status=422)
    try:
        job = submission.submit(
            caller=caller,
            endpoint=Endpoint.CHAT,
            body=form.body(),
            tier=form.cleaned_data["tier"],
            stream=True,
        )
    except errors.SluiceError as error:
        form.refuse(error)
        return _refused(request, form, status=error.status, **headers(error))
    return _accepted(request, form, job)


@require_GET
@access.member
def job(request: HttpRequest, caller: Caller, job_id: uuid.UUID) -> HttpResponse:
    """Show one job: prompt, answer, facts. It is a part of the page, to which an address typed in leads."""
    if not access.is_htmx(request):
        return redirect(_address(job_id))
    shown = _shown(selectors.job_for(caller.tenant, job_id), caller)
    response = render(request, "dashboard/_job.html", shown)
    return access.with_headers(response, {"HX-Replace-Url": _address(job_id)})


@require_GET
@access.member
def facts(request: HttpRequest, caller: Caller, job_id: uuid.UUID) -> HttpResponse:
    """Show how a job stands, and why it waits if it does: asked for with the board, while the job lives."""
    found = selectors.job_for(caller.tenant, job_id, with_texts=False)
    return render(request, "dashboard/_facts.html", _standing(found, caller))


@require_POST
@access.member
def cancel(request: HttpRequest, caller: Caller, job_id: uuid.UUID) -> HttpResponse:
    """End a job, and answer with the board as it then is."""
    submission.cancel(caller=caller, job_id=job_id)
    return render(request, "dashboard/_board.html", _board(request, caller))


@require_POST
@access.member
def retry(request: HttpRequest, caller: Caller, job_id: uuid.UUID) -> HttpResponse:
    """Queue a job that ended badly again, and show it as it then is."""
    shown = _shown(submission.retry(caller=caller, job_id=job_id), caller)
    response = render(request, "dashboard/_job.html", shown)
    return access.with_headers(response, {"HX-Trigger": "board"})


def _board(request: HttpRequest, caller: Caller) -> dict[str, Any]:
    """Return what the board shows; `before` in the request is the job that those it lists are older than."""
    workers = selectors.worker_rows(names_operators=caller.is_operator)
    outlook, queues = None, None
    with suppress(broker.BrokerAway):  # jobs and workers are rows, and can be told without it
        outlook = selectors.look(names_operators=caller.is_operator)
        queues = selectors.queue_rows(outlook)
    asked = request.POST.get("before") or request.GET.get("before")
    return {
        **_jobs(caller, outlook, before=_id(asked) if asked else None),
        "queues": queues,
        "workers": workers,
        "totals": selectors.totals(queues or [], workers),
        "names_models": len(snapshot.limits().models) > 1,
    }


def _jobs(caller: Caller, outlook: Outlook | None, *, before: uuid.UUID | None) -> dict[str, Any]:
    """Return the jobs that the page shows, each with why it waits if it does, and whether older ones follow."""
    newest = selectors.jobs_for(caller.tenant).defer("request", "result")
    found = list((newest.filter(id__lt=before) if before else newest)[: JOBS_SHOWN + 1])
    jobs, has_older = found[:JOBS_SHOWN], len(found) > JOBS_SHOWN
    waiting = selectors.waiting_of(jobs, outlook) if outlook else {}
    for job in jobs:
        job.waiting = waiting.get(job.pk)  # type: ignore[attr-defined]  # for the template alone
    return {"jobs": jobs, "before": before, "older": jobs[-1].pk if has_older else None}


def _shown(found: Job, caller: Caller) -> dict[str, Any]:
    return {"prompt": texts.prompt(found), "answer": texts.answer(found), **_standing(found, caller)}


def _standing(found: Job, caller: Caller) -> dict[str, Any]:
    waiting = selectors.waiting_of([found], names_operators=caller.is_operator)
    return {"job": found, "waiting": waiting.get(found.pk)}


def _accepted(request: HttpRequest, form: PromptForm, accepted: Job) -> HttpResponse:
    context = {"form": form, "form_beside": True, "job": accepted, "prompt": form.cleaned_data["prompt"]}
    response = render(request, "dashboard/_accepted.html", context)
    return access.with_headers(response, {"HX-Trigger": "board", "HX-Replace-Url": _address(accepted.pk)})


def _refused(request: HttpRequest, form: PromptForm, *, status: int, **told: str) -> HttpResponse:
    response = render(request, "dashboard/_form.html", {"form": form}, status=status)
    return access.with_headers(response, {"HX-Retarget": "#prompt-form", "HX-Reswap": "outerHTML", **told})


def _address(job_id: uuid.UUID) -> str:
    return f"{reverse('dashboard:home')}?job={job_id}"


def _id(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise errors.NotFound("There is no such job.", code="job_not_found") from None
