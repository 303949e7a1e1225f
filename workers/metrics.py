"""Read an engine's Prometheus page. Pure; the names are vLLM's, which the sim engine uses too."""

import re
from collections import defaultdict
from collections.abc import Iterator

from workers.engine import EngineGauges

_SAMPLE = re.compile(r"vllm:(\w+)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_WANTED = (
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:kv_cache_usage_perc",
    "vllm:num_preemptions_total",
    "vllm:cache_config_info",
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
)


def parse(page: str) -> EngineGauges:
    """Take the gauges out of `page`. With several engines behind one server (data parallel) they are added up.

    What is missing counts as 0.
    """
    samples: dict[str, list[float]] = defaultdict(list)
    for name, value in _samples(page):
        samples[name].append(value)
    usage = samples["kv_cache_usage_perc"]
    return EngineGauges(
        running=int(sum(samples["num_requests_running"])),
        waiting=int(sum(samples["num_requests_waiting"])),
        kv_capacity_tokens=int(sum(samples["cache_config_info"])),
        kv_used_share=sum(usage) / len(usage) if usage else 0.0,
        preemptions=int(sum(samples["num_preemptions_total"])),
        computed_tokens=int(sum(samples["prompt_tokens_total"] + samples["generation_tokens_total"])),
    )


def _samples(page: str) -> Iterator[tuple[str, float]]:
    for line in page.splitlines():
        if line.startswith(_WANTED) and (match := _SAMPLE.fullmatch(line)):
            name, labels, value = match.groups()
            yield name, _capacity(labels) if name == "cache_config_info" else float(value)


def _capacity(labels: str) -> float:
    """Tokens of KV cache: vLLM tells its configuration as the labels of a gauge that is always 1."""
    config = dict(_LABEL.findall(labels))
    try:
        return float(int(config["num_gpu_blocks"]) * int(config["block_size"]))
    except (KeyError, ValueError):  # "None" until the cache is made
        return 0.0
