"""`--device` is read strictly, and pins an engine to exactly what it names."""

import pytest

from workers import devices


def test_the_cpu_hides_every_gpu() -> None:
    device = devices.parse("cpu")
    assert device.is_cpu
    assert device.environment == {"CUDA_VISIBLE_DEVICES": ""}


@pytest.mark.parametrize("name", ["0", "13", "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "MIG-1f2e/7/0"])
def test_one_gpu_is_named_by_number_or_id(name: str) -> None:
    device = devices.parse(name)
    assert device.environment == {"CUDA_VISIBLE_DEVICES": name}
    assert device.tensor_parallel_size == 1


def test_several_gpus_hold_one_model_together() -> None:
    device = devices.parse("0, 1,3")
    assert device.environment == {"CUDA_VISIBLE_DEVICES": "0,1,3"}
    assert device.tensor_parallel_size == 3


@pytest.mark.parametrize("name", ["", "gpu", "0,", "-1", "0;1", "cpu,0", "0,0", "CPU", "0 1", "\u0661"])
def test_anything_else_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match="device"):
        devices.parse(name)


@pytest.mark.parametrize(("name", "wanted", "size"), [("0,1", 1, 2), ("0,1", 2, 2), ("0", 1, 1), ("cpu", 2, 2)])
def test_a_model_spreads_over_all_gpus_of_its_worker(name: str, wanted: int, size: int) -> None:
    assert devices.tensor_parallel_size(devices.parse(name), wanted=wanted) == size


@pytest.mark.parametrize(("name", "wanted"), [("0", 2), ("0,1", 4)])
def test_a_model_that_wants_another_number_of_gpus_is_refused(name: str, wanted: int) -> None:
    with pytest.raises(ValueError, match=f"wants tensor_parallel_size {wanted}"):
        devices.tensor_parallel_size(devices.parse(name), wanted=wanted)
