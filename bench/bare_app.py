"""The baseline: what anybody writes first. A DRF view that inserts a row and calls `delay()`; a WSGI application.

It knows no keys, tiers, limits or tokens, and imports nothing of ours: `project` would put our transport in place
of kombu's. `python -m bench.bare_app tables` makes its table; served as `bench.bare_app:application`.
"""

import os
import sys
import uuid
from typing import Any

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "bench.bare_settings"
django.setup()

from django.core.wsgi import get_wsgi_application  # noqa: E402 - Django must be set up first
from django.db import connection, models  # noqa: E402
from django.urls import path  # noqa: E402
from rest_framework import serializers  # noqa: E402
from rest_framework.request import Request  # noqa: E402
from rest_framework.response import Response  # noqa: E402
from rest_framework.views import APIView  # noqa: E402

from bench.stock_app import generate  # noqa: E402


class Asked(models.Model):
    """What somebody asked for."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    model = models.CharField(max_length=100)
    body = models.JSONField()
    status = models.CharField(max_length=20, default="queued")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        app_label = "bare"

    def __str__(self) -> str:
        return str(self.id)


class AskedSerializer(serializers.Serializer[dict[str, Any]]):
    """The fields that it looks at."""

    model = serializers.CharField(max_length=100)
    messages = serializers.ListField(child=serializers.DictField(), min_length=1)
    max_tokens = serializers.IntegerField(min_value=1)


class Ask(APIView):
    """Takes requests."""

    def post(self, request: Request) -> Response:
        """Write the row, send the task, and answer with the row's id."""
        asked = AskedSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        row = Asked(model=asked.validated_data["model"], body=request.data)
        row.save(force_insert=True)
        generate.delay(str(row.pk))
        return Response({"id": str(row.pk), "status": row.status}, status=201)


urlpatterns = [path("jobs/", Ask.as_view())]
application = get_wsgi_application()


def tables() -> None:
    """Make the table, unless an earlier measurement did."""
    if Asked._meta.db_table in connection.introspection.table_names():
        return
    with connection.schema_editor() as editor:
        editor.create_model(Asked)


if __name__ == "__main__":
    {"tables": tables}[sys.argv[1]]()
