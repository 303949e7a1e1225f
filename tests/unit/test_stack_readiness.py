"""What `manage.py up` asks of its parts."""

import asyncio
import functools
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import httpx
import pytest
from circus.watcher import Watcher

from inference.states import EngineKind
from project.stack import config, ports, readiness, runner, valkey
from project.stack.config import Options, StackConfig, StackError
from project.stack.credentials import Credentials
from project.stack.parts import Part, Stage
from project.stack.readiness import Readiness
from project.stack.supervisor import Life, Supervisor
from tests.clock import Clock

OPTIONS = {"engine": EngineKind.SIM, "host": "127.0.0.1", "devices": (), "ready_file": None}
NO_LIVES: Final[Mapping[str, Life]] = {}


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
    asked = make_readiness(tmp_path, {})
    assert await asked.model() == shown
    await asked.close()


def make_config(folder: Path, environ: Mapping[str, str], **options: Any) -> StackConfig:
    chosen = Options(state_dir=folder, port=ports.any_free("127.0.0.1"), **{**OPTIONS, **options})
    return config.build(chosen, Credentials(), environ)


def make_readiness(
    folder: Path, environ: Mapping[str, str], *, lives: Mapping[str, Life] = NO_LIVES, **options: Any
) -> Readiness:
    supervisor = cast("Supervisor", SimpleNamespace(lives=lives))
    return Readiness(make_config(folder, environ, **options), supervisor)


@pytest.fixture
def dead_url() -> str:
    """Of a Redis server that is not there."""
    return f"redis://:secret@127.0.0.1:{ports.any_free('127.0.0.1')}/0"


async def test_who_waits_for_a_server_that_is_not_there_says_so_and_gives_up(
    dead_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Clock(step=readiness.GIVE_UP_SECONDS / 4).replace_in("project.stack.readiness", monkeypatch)
    said: list[str] = []
    asked = make_readiness(tmp_path, {"REDIS_URL": dead_url})
    with pytest.raises(StackError) as given_up:
        await asked.valkey_answers(said.append)
    await asked.close()
    where = dead_url.partition("@")[2].removesuffix("/0")
    assert said
    assert said[0].startswith(f"waiting for Valkey at {where} (")
    assert "\n" not in str(given_up.value)
    assert where in str(given_up.value)
    assert not [text for text in (*said, str(given_up.value)) if "secret" in text]


async def test_a_server_of_the_stacks_own_is_waited_for_as_long_as_it_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "GIVE_UP_SECONDS", 0.0)
    answers = iter(["refused", valkey.LOADING, "refused"])

    async def ask(_url: str) -> str | None:
        return next(answers, None)

    monkeypatch.setattr(valkey, "ask", ask)
    asked = make_readiness(tmp_path, {})
    await asked.valkey_answers(print)
    await asked.close()
    assert next(answers, None) is None


@pytest.mark.parametrize("was_ready", [True, False])
async def test_while_only_the_web_process_is_away_its_workers_are_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, was_ready: bool
) -> None:
    async def ask(_url: str) -> None:
        return None

    monkeypatch.setattr(valkey, "ask", ask)
    now = time.monotonic()
    lives = {name: make_life(name, started_at=now - 60) for name in ("web", "worker-1", "beat")}
    lives["worker-1"].is_ready = was_ready
    lives["web"].started_at = now
    asked = make_readiness(tmp_path, {}, lives=lives, devices=("cpu",))
    missing = await asked.missing()
    await asked.close()
    assert missing == {"web": "no answer yet"} | ({} if was_ready else {"worker-1": "no answer yet"})


def make_life(name: str, *, started_at: float) -> Life:
    watcher = cast("Watcher", SimpleNamespace(processes={1: None}))
    return Life(Part(name, (), Stage.WEB, 1), watcher, started_at=started_at)


def test_a_redis_url_that_is_none_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="REDIS_URL: "):
        make_config(tmp_path, {"REDIS_URL": "bogus://x"})


@pytest.mark.parametrize("made", ["Supervisor", "Readiness"])
def test_a_signal_that_comes_while_the_stack_is_put_together_stops_it(
    made: str, dead_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = getattr(runner, made)

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        thing = make(*args, **kwargs)
        signal.raise_signal(signal.SIGTERM)
        return thing

    handled = {signum: signal.getsignal(signum) for signum in runner.STOPPING}
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # where it is not held, it must not end the tests
    monkeypatch.setattr(runner, made, interrupted)
    stack = make_config(tmp_path, {"REDIS_URL": dead_url})
    try:
        asyncio.run(asyncio.wait_for(runner._run(stack, {}), 10))
    finally:
        for signum, handler in handled.items():
            signal.signal(signum, handler)
