"""What `manage.py up` asks of its parts."""

import functools
from pathlib import Path

import httpx
import pytest

from inference.states import EngineKind
from project.stack import config, ports
from project.stack.config import Options
from project.stack.credentials import Credentials
from project.stack.output import Output
from project.stack.readiness import Readiness
from project.stack.supervisor import Supervisor

OPTIONS = {"engine": EngineKind.SIM, "host": "127.0.0.1", "devices": (), "ready_file": None}


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (httpx.Response(200, json={"data": [{"id": "tiny"}, {"id": "huge"}]}), "tiny"),
        (httpx.Response(200, json={"data": []}), "MODEL"),
        (httpx.Response(503), "MODEL"),
        (httpx.ConnectError("it fell"), "MODEL"),
    ],
    ids=["served", "none enabled", "away", "fell"],
)
async def test_a_stack_that_is_ready_does_not_end_for_want_of_an_example(
    answer: httpx.Response | httpx.ConnectError, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(_request: httpx.Request) -> httpx.Response:
        if isinstance(answer, httpx.HTTPError):
            raise answer
        return answer

    client = functools.partial(httpx.AsyncClient, transport=httpx.MockTransport(ask))
    monkeypatch.setattr(httpx, "AsyncClient", client)
    options = Options(state_dir=tmp_path, port=ports.any_free("127.0.0.1"), **OPTIONS)  # type: ignore[arg-type]
    readiness = Readiness(config.build(options, Credentials(), {}), Supervisor([], env={}, output=Output([])))
    assert await readiness.model() == shown
    await readiness.close()
