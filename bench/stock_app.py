"""The baseline: stock Celery on its own Redis transport with results in Redis. Knows nothing of ours.

`python -m bench.stock_app COUNT` queues so many tasks.
"""

import os
import sys
from typing import Any

from celery import Celery

from bench.null_engine import ANSWER

app = Celery("stock", broker=os.environ.get("STOCK_BROKER"), backend=os.environ.get("STOCK_RESULTS"))


@app.task
def generate(_request: dict[str, Any]) -> dict[str, Any]:
    """Answer at once, as the engine that does nothing."""
    return ANSWER


def main(count: int) -> None:
    """Queue tasks, each with its prompt, as a plain set-up would."""
    request = {"model": "bench", "messages": [{"role": "user", "content": "word " * 64}], "max_tokens": 64}
    for _ in range(count):
        generate.delay(request)


if __name__ == "__main__":
    main(int(sys.argv[1]))
