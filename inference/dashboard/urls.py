"""Routes of the pages for people. `project/asgi.py` hands those below `dashboard/streams/` to the lean handler."""

from django.contrib.auth import views as auth
from django.urls import path
from django.views.generic import RedirectView

from inference.api import serializers
from inference.api.routes import only
from inference.dashboard import streams, usage, views

app_name = "dashboard"

login = auth.LoginView.as_view(template_name="dashboard/login.html", redirect_authenticated_user=True)

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="dashboard:home")),
    path("login/", login, name="login"),
    path("logout/", auth.LogoutView.as_view(), name="logout"),
    path("dashboard/", views.home, name="home"),
    path("dashboard/board/", views.board, name="board"),
    path("dashboard/jobs/", views.submit, name="submit"),
    path("dashboard/jobs/<uuid:job_id>/", views.job, name="job"),
    path("dashboard/jobs/<uuid:job_id>/facts/", views.facts, name="facts"),
    path("dashboard/jobs/<uuid:job_id>/cancel/", views.cancel, name="cancel"),
    path("dashboard/jobs/<uuid:job_id>/retry/", views.retry, name="retry"),
    path("dashboard/usage/", usage.page, name="usage"),
    path(
        "dashboard/streams/usage.csv", only("GET", usage.download, takes=serializers.USAGE_SPAN), name="usage-csv"
    ),
    path("dashboard/streams/<uuid:job_id>/", only("GET", streams.job_stream, takes=["after"]), name="stream"),
]
