"""What `--device` means: the environment that pins an engine to its devices, and how many share a model. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

CPU: Final = "cpu"
EXTERNAL: Final = "external"
"""What stands in a device's place where the engine is not ours: nothing is pinned."""
_GPU: Final = re.compile(r"[0-9]+|(GPU|MIG)-[0-9A-Za-z/-]+")


@dataclass(frozen=True, slots=True)
class Device:
    """The devices of one engine."""

    name: str
    environment: Mapping[str, str]
    tensor_parallel_size: int
    """GPUs that hold one copy of the model together; on the CPU the model's own setting counts."""

    @property
    def is_cpu(self) -> bool:
        """Whether the engine computes on the CPU."""
        return self.name == CPU


def parse(name: str) -> Device:
    """Read `cpu`, one GPU (`0`, or a `GPU-…`/`MIG-…` id as nvidia-smi prints it) or several with commas.

    Raises ValueError, saying what is wrong.
    """
    if name == CPU:
        return Device(CPU, MappingProxyType({"CUDA_VISIBLE_DEVICES": ""}), 1)
    gpus = [part.strip() for part in name.split(",")]
    if wrong := [gpu for gpu in gpus if not _GPU.fullmatch(gpu)]:
        raise ValueError(f"device {name!r}: {wrong[0]!r} is neither 'cpu' nor a GPU's number or id")
    if len(set(gpus)) < len(gpus):
        raise ValueError(f"device {name!r} names a GPU twice")
    return Device(name, MappingProxyType({"CUDA_VISIBLE_DEVICES": ",".join(gpus)}), len(gpus))


def tensor_parallel_size(device: Device, *, wanted: int) -> int:
    """Over how many devices the model is spread: all that the worker has.

    `wanted` is the model row's number, where 1 leaves it to the device. Raises ValueError if the two contradict.
    """
    if device.is_cpu or wanted == device.tensor_parallel_size:
        return wanted
    if wanted == 1:
        return device.tensor_parallel_size
    raise ValueError(
        f"the model wants tensor_parallel_size {wanted}, but device {device.name!r} "
        f"has {device.tensor_parallel_size} GPUs"
    )
