"""Whether the stack can take work: what each part says of itself, asked as a client would."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

import httpx

from inference.states import WorkerState
from project.stack import valkey
from project.stack.config import StackConfig, StackError
from project.stack.supervisor import Life, Supervisor

POLL_SECONDS: Final = 0.5
SETTLED_SECONDS: Final = 3.0
"""A part without a question of its own (beat, control) is ready when it has run this long."""
SAY_AGAIN_SECONDS: Final = 5.0
"""While waiting, the same thing is said again after this long."""
GIVE_UP_SECONDS: Final = 60.0
"""A server in `REDIS_URL` may start after the stack, but not for ever."""
READY: Final = "ready"
HALTED: Final = frozenset({WorkerState.PAUSED, WorkerState.DRAINING})
"""A worker that an operator halted is up: it is as it was told to be."""
PLACEHOLDER: Final = "MODEL"
SILENT: Final = "no answer yet"
TIMEOUT: Final = httpx.Timeout(2.0)


class Readiness:
    """Asks the parts; remembers in their `Life` which are ready."""

    def __init__(self, config: StackConfig, supervisor: Supervisor) -> None:
        self._config = config
        self._supervisor = supervisor
        self._client = httpx.AsyncClient(timeout=TIMEOUT, trust_env=False)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def valkey_answers(self, say: Callable[[str], None]) -> None:
        """Return once the Redis server does. Parts start after it, so that none needs to retry.

        Raises StackError if one that is not ours keeps silent for `GIVE_UP_SECONDS`.
        """
        began = said_at = time.monotonic()
        while silence := await valkey.ask(self._config.redis_url):
            now = time.monotonic()
            if now - began >= GIVE_UP_SECONDS and self._config.valkey_port is None and silence != valkey.LOADING:
                raise StackError(self._no_server(silence))
            if now - said_at >= SAY_AGAIN_SECONDS:
                said_at = now
                say(f"waiting for Valkey at {self._config.redis_address} ({silence}, {now - began:.0f} s)")
            await asyncio.sleep(POLL_SECONDS / 5)

    def _no_server(self, silence: str) -> str:
        where = f"{self._config.redis_address} after {GIVE_UP_SECONDS:g} s ({silence})"
        return (
            f"REDIS_URL: no server answers at {where}: start it, or leave REDIS_URL out for one of the stack's own"
        )

    async def missing(self) -> dict[str, str]:
        """Return the parts that are not ready, each with what it is at; empty when all are."""
        lives = self._supervisor.lives
        if all(life.is_ready and life.is_running for life in lives.values()):
            return {}
        said = await self._ask()
        states = {name: _state(life, said) for name, life in lives.items()}
        for name, life in lives.items():
            life.is_ready = states[name] == READY
        return {name: state for name, state in states.items() if state != READY}

    async def model(self) -> str:
        """Name of a model that the stack serves, for an example; a placeholder if none can be had."""
        try:
            answer = (await self._get("/v1/models")).raise_for_status()
        except httpx.HTTPError:  # the web process fell just now, and will be restarted
            return PLACEHOLDER
        return next((str(model["id"]) for model in answer.json()["data"]), PLACEHOLDER)

    async def _get(self, path: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self._config.credentials.api_key}"}
        return await self._client.get(f"{self._config.base_url}{path}", headers=headers)

    async def _ask(self) -> dict[str, str]:
        silence = await valkey.ask(self._config.redis_url)
        workers, flower = await asyncio.gather(self._workers(), self._flower())
        return {"valkey": silence or READY, "flower": flower, **workers}

    async def _flower(self) -> str:
        try:
            answer = await self._client.get(f"{self._config.flower_url}/healthcheck")
        except httpx.HTTPError:
            return SILENT
        return READY if answer.is_success else f"answers {answer.status_code}"

    async def _workers(self) -> dict[str, str]:
        """State of each worker; the web process is ready if it can tell."""
        names = [name.partition("@")[0] for name in self._config.worker_names]
        # Who was ready is taken to be so while nobody can tell: what is missing is the web process.
        silent = {name: READY if self._supervisor.lives[name].is_ready else SILENT for name in names}
        try:
            answer = await self._get("/api/v1/workers/")
        except httpx.HTTPError:
            return {"web": SILENT, **silent}
        if not answer.is_success:
            return {"web": f"answers {answer.status_code}", **silent}
        rows = {row["name"].partition("@")[0]: row for row in answer.json()}
        return {
            "web": READY,
            **{name: _worker_state(self._supervisor.lives[name], rows.get(name)) for name in names},
        }


def _worker_state(life: Life, row: dict[str, Any] | None) -> str:
    """Read the worker's row, unless an earlier run of it wrote that."""
    if row is None or row["heartbeat_age_seconds"] > life.ran_seconds:
        return SILENT
    state, detail = row["state"], row["state_detail"]
    if state in HALTED:
        return READY
    return f"{state}: {detail}" if detail and state != WorkerState.READY else str(state)


def _state(life: Life, said: dict[str, str]) -> str:
    if not life.is_running:
        return "down"
    settled = READY if life.ran_seconds >= SETTLED_SECONDS else "starting"
    return said.get(life.part.name, settled)


def sentence(missing: dict[str, str], supervisor: Supervisor) -> str:
    """Say in one line what is still waited for."""
    parts = [f"{name} ({state}, {supervisor.lives[name].ran_seconds:.0f} s)" for name, state in missing.items()]
    return "waiting for " + ", ".join(parts)
