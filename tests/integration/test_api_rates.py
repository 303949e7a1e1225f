"""What a key with limits is told with each answer of `/v1`."""

from inference.api import authentication
from inference.models import ApiKey
from tests import factories
from tests.integration.api_server import Api

pytest_plugins = ["tests.integration.api_fixtures"]

CHAT = "/v1/chat/completions"


def test_answers_to_a_key_with_limits_tell_how_its_rates_stand(api: Api) -> None:
    ApiKey.objects.update(requests_per_minute=2)
    authentication.forget()
    accepted = api.post(CHAT, factories.make_chat(), headers={"Prefer": "respond-async"})
    assert accepted.headers["x-ratelimit-limit-requests"] == "2"
    assert accepted.headers["x-ratelimit-remaining-requests"] == "1"
    assert accepted.headers["x-ratelimit-reset-requests"].endswith("s")
    assert "x-ratelimit-limit-tokens" not in accepted.headers
    api.post(CHAT, factories.make_chat(), headers={"Prefer": "respond-async"})
    refused = api.post(CHAT, factories.make_chat())
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    assert refused.headers["x-ratelimit-remaining-requests"] == "0"
    assert 1 <= int(refused.headers["Retry-After"]) <= 61
