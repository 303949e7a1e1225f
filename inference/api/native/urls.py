"""Routes below `/api/`."""

from django.urls import path, re_path

from inference.api import schema, serializers
from inference.api.native import events, halts, usage, views
from inference.api.routes import adapt, nothing, only

urlpatterns = [
    path("v1/jobs/", adapt(views.Jobs.as_view(), takes=serializers.JOB_LIST), name="jobs"),
    path("v1/jobs/<uuid:job_id>/", adapt(views.JobDetail.as_view()), name="job"),
    path("v1/jobs/<uuid:job_id>/cancel/", adapt(views.JobCancel.as_view()), name="job-cancel"),
    path("v1/jobs/<uuid:job_id>/retry/", adapt(views.JobRetry.as_view()), name="job-retry"),
    path("v1/jobs/<uuid:job_id>/events/", only("GET", events.job_events, takes=["after"]), name="job-events"),
    path("v1/queues/", adapt(views.Queues.as_view()), name="queues"),
    path("v1/usage/", adapt(usage.Usage.as_view(), takes=serializers.USAGE), name="usage"),
    path("v1/usage.csv", only("GET", usage.usage_csv, takes=serializers.USAGE_SPAN), name="usage-csv"),
    path("v1/workers/", adapt(views.Workers.as_view()), name="workers"),
    *(path(f"v1/queues/<path:name>/{act}/", adapt(view)) for act, view in halts.QUEUE_VIEWS.items()),
    *(path(f"v1/workers/<path:name>/{act}/", adapt(view)) for act, view in halts.WORKER_VIEWS.items()),
    path("schema/", schema.schema_view, name="schema"),
    path("docs/", schema.docs_view, name="docs"),
    re_path(r"^", nothing),
]
