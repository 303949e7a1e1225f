"""vLLM's metrics page is read by its exact names."""

from workers import metrics
from workers.engine import EngineGauges

PAGE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="smollm2"} 3.0
vllm:num_requests_waiting{engine="0",model_name="smollm2"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="smollm2",reason="capacity"} 7.0
vllm:kv_cache_usage_perc{engine="0",model_name="smollm2"} 0.25
vllm:num_preemptions_total{engine="0",model_name="smollm2"} 1.2e+01
vllm:num_preemptions_created{engine="0",model_name="smollm2"} 1.795961705e+09
vllm:cache_config_info{block_size="128",cache_dtype="auto",engine="0",num_gpu_blocks="182"} 1.0
vllm:prompt_tokens_total{engine="0",model_name="smollm2"} 900.0
vllm:prompt_tokens_by_source_total{engine="0",model_name="smollm2",source="local_compute"} 900.0
vllm:generation_tokens_total{engine="0",model_name="smollm2"} 99.0
"""


def test_gauges_come_from_their_own_lines_only() -> None:
    assert metrics.parse(PAGE) == EngineGauges(
        running=3, waiting=2, kv_capacity_tokens=182 * 128, kv_used_share=0.25, preemptions=12, computed_tokens=999
    )


def test_engines_behind_one_server_are_added_up() -> None:
    gauges = metrics.parse(PAGE + PAGE.replace('engine="0"', 'engine="1"').replace("0.25", "0.75"))
    assert gauges == EngineGauges(
        running=6,
        waiting=4,
        kv_capacity_tokens=2 * 182 * 128,
        kv_used_share=0.5,
        preemptions=24,
        computed_tokens=1998,
    )


def test_what_an_engine_does_not_tell_is_zero() -> None:
    assert metrics.parse("") == EngineGauges(0, 0, 0, 0.0, 0)
    assert metrics.parse('vllm:cache_config_info{num_gpu_blocks="None",block_size="16"} 1').kv_capacity_tokens == 0
