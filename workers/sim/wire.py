"""The bytes that vLLM answers with. Pure."""

import json
from typing import Any, Final

from workers.sim.config import BLOCK_TOKENS
from workers.sim.request import SimRequest
from workers.sim.scheduler import Scheduler
from workers.sim.waits import Waits

DONE: Final = b"data: [DONE]\n\n"


class Writer:
    """Writes the answer to one request, whole or in pieces."""

    def __init__(self, request: SimRequest, *, model: str, request_id: str, now: int) -> None:
        self._request = request
        self._id = f"{'chatcmpl' if request.is_chat else 'cmpl'}-{request_id}"
        self._model = model
        self._now = now
        # A chunk for each token must be cheap: what is the same in all of them is made once.
        head = json.dumps(self._head("chat.completion.chunk" if request.is_chat else "text_completion"))
        piece = '"delta":{"content":' if request.is_chat else '"text":'
        close = "}" if request.is_chat else ""
        self._before = f'data: {head[:-1]},"choices":[{{"index":0,{piece}'
        self._after = f'{close},"logprobs":null,"finish_reason":'
        self._head_json = head

    @property
    def finish_reason(self) -> str:
        """`length` or `stop`."""
        return "length" if self._request.is_cut else "stop"

    def whole(self) -> bytes:
        """Return the answer to a request that does not stream."""
        reply = "".join(self._request.reply)
        choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": self.finish_reason}
        if self._request.is_chat:
            choice["message"] = {"role": "assistant", "content": reply}
        else:
            choice["text"] = reply
        head = self._head("chat.completion" if self._request.is_chat else "text_completion")
        return json.dumps({**head, "choices": [choice], "usage": self._usage()}).encode()

    def opening(self) -> bytes:
        """Return what comes before the first token: a chat names its role."""
        if not self._request.is_chat:
            return b""
        delta = '"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null'
        return f'data: {self._head_json[:-1]},"choices":[{{"index":0,{delta}}}]}}\n\n'.encode()

    def tokens(self, first: int, last: int) -> bytes:
        """Return the chunks of the reply's tokens from `first` until before `last`."""
        return "".join(self._chunk(index) for index in range(first, last)).encode()

    def closing(self) -> bytes:
        """Return what comes after the last token."""
        if not self._request.include_usage:
            return DONE
        usage = json.dumps(self._usage())
        return f'data: {self._head_json[:-1]},"choices":[],"usage":{usage}}}\n\n'.encode() + DONE

    def _chunk(self, index: int) -> str:
        reply = self._request.reply
        reason = f'"{self.finish_reason}"' if index == len(reply) - 1 else "null"
        return f"{self._before}{json.dumps(reply[index])}{self._after}{reason}}}]}}\n\n"

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self._id, "object": kind, "created": self._now, "model": self._model}

    def _usage(self) -> dict[str, int]:
        prompt, output = self._request.told_tokens, len(self._request.reply)
        return {"prompt_tokens": prompt, "total_tokens": prompt + output, "completion_tokens": output}


def metrics(scheduler: Scheduler, waits: Waits, *, model: str) -> str:
    """Return the Prometheus page: vLLM's names, as far as worker and bench read them."""
    used = 1 - scheduler.free_blocks / scheduler.total_blocks
    labels = f'engine="0",model_name="{model}"'
    cache = f'block_size="{BLOCK_TOKENS}",engine="0",num_gpu_blocks="{scheduler.total_blocks}"'
    return (
        f"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{{{labels}}} {len(scheduler.running)}\n"
        f"# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{{{labels}}} {scheduler.waiting}\n"
        f"# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{{{labels}}} {used}\n"
        "# TYPE vllm:num_preemptions_total counter\n"
        f"vllm:num_preemptions_total{{{labels}}} {scheduler.preemptions}\n"
        "# TYPE vllm:prompt_tokens_total counter\n"
        f"vllm:prompt_tokens_total{{{labels}}} {scheduler.prompt_tokens}\n"
        "# TYPE vllm:generation_tokens_total counter\n"
        f"vllm:generation_tokens_total{{{labels}}} {scheduler.output_tokens}\n"
        "# TYPE vllm:request_queue_time_seconds histogram\n"
        f"{_buckets('vllm:request_queue_time_seconds', waits, labels)}"
        f"vllm:request_queue_time_seconds_count{{{labels}}} {waits.count}\n"
        f"vllm:request_queue_time_seconds_sum{{{labels}}} {waits.seconds}\n"
        f"# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{{{cache}}} 1\n"
    )


def _buckets(name: str, waits: Waits, labels: str) -> str:
    lines = (f'{name}_bucket{{{labels},le="{bound}"}} {count}\n' for bound, count in waits.buckets())
    return "".join(lines)
