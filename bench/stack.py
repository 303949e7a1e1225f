"""The whole stack as its users run it, on the simulated engine or on vLLM, for the length of a measurement."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench import places
from bench.load import Target
from project.stack import ports

MODEL: Final = "smollm2-135m-instruct"
READY_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class Stack:
    """A running stack with one engine worker."""

    access: Any
    """What the ready file says."""
    folder: Path

    @property
    def api(self) -> Target:
        """The front door."""
        return Target(self.access["base_url"], key=self.access["api_key"])

    @property
    def engine(self) -> Target:
        """The same engine, past everything of ours."""
        return Target("http://engine", socket=str(self.folder / "engines" / "worker-1.sock"))


@contextlib.contextmanager
def running(engine: str, *, sim: str = "") -> Iterator[Stack]:
    """Run a stack; `sim` are options of the simulated engine."""
    with places.folder() as where:
        ready, log = where / "ready.json", where / "up.log"
        command = ("manage.py", "up", "--engine", engine, "--port", str(ports.any_free("127.0.0.1")))
        options = ("--state", str(where), "--ready-file", str(ready))
        with places.process(*command, *options, env=places.environment(SLUICE_SIM_ARGS=sim), log=log) as started:
            places.until(
                lambda: ready.exists() or started.poll() is not None,
                seconds=READY_SECONDS,
                what="the stack is ready",
            )
            if not ready.exists():
                raise RuntimeError(f"the stack ended: {log.read_text(errors='replace')[-2000:]}")
            yield Stack(json.loads(ready.read_text()), where)


def body(*, prompt_tokens: int, output_tokens: int, **fields: Any) -> dict[str, Any]:
    """Return a chat request of about so many tokens in, and exactly so many out."""
    words = " ".join(["word"] * prompt_tokens)
    asked = {"model": MODEL, "messages": [{"role": "user", "content": words}], "max_tokens": output_tokens}
    return {**asked, "ignore_eos": True, **fields}
