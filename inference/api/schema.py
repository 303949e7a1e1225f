"""The OpenAPI schema: what DRF's views say of themselves, and the asynchronous endpoints, written by hand."""

from collections.abc import Sequence
from typing import Any, Final

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerView

from inference.api.routes import adapt

schema_view: Final = adapt(
    SpectacularAPIView.as_view(authentication_classes=[], permission_classes=[]), takes=None
)
docs_view: Final = adapt(
    SpectacularSwaggerView.as_view(
        url_name="schema", template_name="api/docs.html", authentication_classes=[], permission_classes=[]
    ),
    takes=None,
)

ERRORS: Final = {
    "4XX": {"description": "The caller's fault: `error.message` names field, limit and value."},
    "5XX": {"description": "Not the caller's fault; `Retry-After` says when to come back."},
}


class ApiKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """`Authorization: Bearer sk-…`."""

    target_class = "inference.api.authentication.ApiKeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:  # noqa: ARG002 - its signature
        """Return the scheme."""
        return {"type": "http", "scheme": "bearer"}


def add_async_endpoints(
    result: dict[str, Any],
    generator: Any,  # noqa: ARG001 - drf-spectacular's signature
    request: Any,  # noqa: ARG001
    public: bool,  # noqa: ARG001, FBT001
) -> dict[str, Any]:
    """Add the paths that are no DRF views."""
    result["paths"] |= {
        "/v1/chat/completions": {
            "post": _openai("chat_completions", "Chat completion, streamed or not, as OpenAI's.")
        },
        "/v1/completions": {"post": _openai("completions", "Text completion, streamed or not, as OpenAI's.")},
        "/v1/models": {"get": _operation("models_list", "The models served.", tag="v1")},
        "/v1/models/{name}": {
            "get": _operation("models_get", "One model.", tag="v1", parameters=[_parameter("name", "path")])
        },
        "/api/v1/jobs/{job_id}/events/": {"get": _events()},
        "/api/v1/usage.csv": {"get": _usage_csv()},
    }
    return result


def _openai(name: str, summary: str) -> dict[str, Any]:
    body = {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}
    prefer = _parameter("Prefer", "header", "`respond-async`: answer 202 with the job at once, and keep it.")
    return _operation(name, summary, tag="v1", parameters=[prefer]) | {"requestBody": body}


def _events() -> dict[str, Any]:
    parameters = [
        _parameter("job_id", "path"),
        _parameter("Last-Event-ID", "header", "Go on after this event."),
        _parameter("after", "query", "The same, for clients that cannot set the header."),
    ]
    summary = "The job's states and output as server-sent events; ends after its terminal state."
    operation = _operation("jobs_events", summary, tag="jobs", parameters=parameters)
    operation["responses"]["200"]["content"] = {"text/event-stream": {"schema": {"type": "string"}}}
    return operation


def _usage_csv() -> dict[str, Any]:
    parameters = [
        _parameter("from", "query", "First day, of UTC; else the month's of `to`."),
        _parameter("to", "query", "Last day, of UTC; else today."),
        _parameter("tenant", "query", "Operators only; without it, everyone's."),
    ]
    summary = "Usage and cost as CSV, a line per day, tenant, key, model and tier."
    operation = _operation("usage_csv", summary, tag="usage", parameters=parameters)
    operation["responses"]["200"]["content"] = {"text/csv": {"schema": {"type": "string"}}}
    return operation


def _operation(name: str, summary: str, *, tag: str, parameters: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    return {
        "operationId": name,
        "summary": summary,
        "tags": [tag],
        "parameters": list(parameters),
        "security": [{"apiKey": []}],
        "responses": {"200": {"description": "OK"}, **ERRORS},
    }


def _parameter(name: str, place: str, description: str = "") -> dict[str, Any]:
    return {
        "name": name,
        "in": place,
        "required": place == "path",
        "description": description,
        "schema": {"type": "string"},
    }
