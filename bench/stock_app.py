"""The baseline: stock Celery on its own Redis transport with results in Redis. Knows nothing of ours.

- `python -m bench.stock_app queue COUNT`: queue so many tasks that do nothing
- `python -m bench.stock_app replay FILE`: queue a call to the engine at each moment that the file names, and
  print when each was sent, begun and ended
"""

import functools
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import httpx
from celery import Celery

from bench.null_engine import ANSWER

app = Celery("stock", broker=os.environ.get("STOCK_BROKER"), backend=os.environ.get("STOCK_RESULTS"))


# Named: `python -m` would queue them under another name than the worker knows.
@app.task(name="bench.generate")
def generate(_request: dict[str, Any] | str) -> dict[str, Any]:
    """Answer at once, as the engine that does nothing, whatever is asked, or the row of whatever id."""
    return ANSWER


@app.task(name="bench.ask")
def ask(request: dict[str, Any]) -> dict[str, Any]:
    """Ask the engine and return its answer, with when it was asked and answered."""
    began = time.time()
    answer = _engine().post("/v1/chat/completions", json=request).raise_for_status().json()
    return {"began": began, "ended": time.time(), "answer": answer}


@functools.cache
def _engine() -> httpx.Client:
    transport = httpx.HTTPTransport(uds=os.environ["STOCK_ENGINE"], limits=httpx.Limits(max_connections=None))
    return httpx.Client(transport=transport, base_url="http://engine", timeout=600)


def queue(count: str) -> None:
    """Queue tasks, each with its prompt, as a plain set-up would."""
    request = {"model": "bench", "messages": [{"role": "user", "content": "the " * 64}], "max_tokens": 64}
    for _ in range(int(count)):
        generate.delay(request)


def replay(path: str) -> None:
    """Send each request at its moment, wait for all, and print `[sent, began, ended]` of each."""
    began, sent = time.time(), []
    for at, request in json.loads(Path(path).read_text()):
        time.sleep(max(0.0, began + at - time.time()))
        sent.append((time.time(), ask.delay(request)))
    answers = [(at, result.get(timeout=600)) for at, result in sent]
    sys.stdout.write(json.dumps([[at, answer["began"], answer["ended"]] for at, answer in answers]))


VERBS: Final[Mapping[str, Callable[[str], None]]] = {"queue": queue, "replay": replay}

if __name__ == "__main__":
    VERBS[sys.argv[1]](sys.argv[2])
