"""Routes below `/v1/`."""

from django.urls import path, re_path

from inference.api.routes import nothing, only
from inference.api.v1 import views

urlpatterns = [
    path("chat/completions", only("POST", views.chat_completions)),
    path("completions", only("POST", views.completions)),
    path("models", only("GET", views.models)),
    path("models/<path:name>", only("GET", views.model)),
    re_path(r"^", nothing),
]
