"""An engine's command line and environment follow from its model row and device."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from inference.states import EngineKind
from tests import engines as builders
from tests import factories
from workers import engines, sim_engine, vllm_engine
from workers.child_engine import Launch

BUNDLED = "smollm2"


@pytest.fixture
def models_dir(tmp_path: Path) -> Path:
    (tmp_path / BUNDLED).mkdir()
    return tmp_path


def _vllm(models_dir: Path, *, device: str = "cpu", **model: object) -> Launch:
    options: dict[str, Any] = {"source": BUNDLED} | model
    limits = factories.make_model_limits(**options)
    spec = builders.make_spec(models_dir, kind=EngineKind.VLLM, device=device, model=limits, models_dir=models_dir)
    return vllm_engine.launch(spec)


def _sim(folder: Path, **spec: object) -> Launch:
    return sim_engine.launch(builders.make_spec(folder, **spec))


def test_vllm_gets_every_field_of_the_row(models_dir: Path) -> None:
    command = _vllm(models_dir, name="m", max_num_batched_tokens=512, cpu_kv_cache_gib=0.5).command

    expected = {
        f"--model={models_dir / BUNDLED}",
        "--served-model-name=m",
        f"--uds={models_dir / 'engine.sock'}",
        "--dtype=float32",
        "--max-model-len=8192",
        "--max-num-seqs=32",
        "--max-num-batched-tokens=512",
        f"--kv-cache-memory-bytes={512 * 1024**2}",
        "--scheduling-policy=priority",
        "--enforce-eager",
    }
    assert expected <= set(command)


def test_what_the_row_leaves_open_is_left_to_vllm(models_dir: Path) -> None:
    command = " ".join(_vllm(models_dir, enforce_eager=False).command)
    assert "--max-num-batched-tokens" not in command
    assert "--enforce-eager" not in command
    assert "--tensor-parallel-size" not in command


def test_further_arguments_of_the_row_come_last_and_so_win(models_dir: Path) -> None:
    command = _vllm(models_dir, engine_args=("--dtype", "auto", "--seed=1")).command
    assert command[-3:] == ("--dtype", "auto", "--seed=1")


def test_vllm_never_logs_a_prompt(models_dir: Path) -> None:
    assert "--no-enable-log-requests" in _vllm(models_dir).command


def test_gpus_are_pinned_and_size_their_own_cache(models_dir: Path) -> None:
    launch = _vllm(models_dir, device="2,3")
    assert launch.env["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert "--tensor-parallel-size=2" in launch.command
    assert not [word for word in launch.command if word.startswith("--kv-cache-memory-bytes")]


def test_a_local_model_never_waits_for_the_network_and_a_hub_name_may(models_dir: Path) -> None:
    local, hub = _vllm(models_dir), _vllm(models_dir, source="org/model")
    assert local.env["HF_HUB_OFFLINE"] == "1"
    assert "HF_HUB_OFFLINE" not in hub.env
    assert "--model=org/model" in hub.command


def test_vllm_reports_no_usage(models_dir: Path) -> None:
    env = _vllm(models_dir).env
    assert (env["VLLM_NO_USAGE_STATS"], env["DO_NOT_TRACK"]) == ("1", "1")


def test_a_device_that_contradicts_the_row_is_found_before_any_start(models_dir: Path) -> None:
    limits = factories.make_model_limits(tensor_parallel_size=2)
    with pytest.raises(ValueError, match="tensor_parallel_size"):
        engines.create(builders.make_spec(models_dir, kind=EngineKind.VLLM, device="0", model=limits))


def test_the_simulated_engine_knows_the_rows_fact_and_bounds(tmp_path: Path) -> None:
    command = _sim(tmp_path).command
    assert "--fact-answer=Paris" in command
    assert "--max-num-seqs=32" in command


def test_options_of_the_simulated_engine_come_from_the_environment_and_win(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(sim_engine.ARGUMENTS, "--decode-tps 1000 --fact-answer 'New York'")
    assert _sim(tmp_path).command[-4:] == ("--decode-tps", "1000", "--fact-answer", "New York")
    assert _sim(tmp_path, env={sim_engine.ARGUMENTS: "--seed 7"}).command[-2:] == ("--seed", "7")


def test_the_simulated_cache_holds_at_least_one_longest_sequence(tmp_path: Path) -> None:
    limits = dataclasses.replace(factories.make_model_limits(), max_model_len=100_000, max_num_seqs=2)
    assert "--kv-tokens=100000" in _sim(tmp_path, model=limits).command


def test_only_the_engine_that_cannot_count_is_told_how_long_a_prompt_is(models_dir: Path) -> None:
    assert _sim(models_dir).extras.prompt_tokens
    assert not _vllm(models_dir).extras.prompt_tokens  # its own count is what ours is held against
