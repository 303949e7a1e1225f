"""URL routes of the whole site."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/", include("inference.api.native.urls")),
    path("v1/", include("inference.api.v1.urls")),
    path("", include("inference.dashboard.urls")),
]
