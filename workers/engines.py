"""The kinds of engine."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from inference.states import EngineKind
from workers import sim_engine, vllm_engine
from workers.child_engine import ChildEngine, Launch
from workers.engine import Engine, EngineSpec
from workers.external_engine import ExternalEngine

_LAUNCHES: Final[Mapping[EngineKind, Callable[[EngineSpec], Launch]]] = MappingProxyType(
    {EngineKind.VLLM: vllm_engine.launch, EngineKind.SIM: sim_engine.launch}
)


def create(spec: EngineSpec) -> Engine:
    """Make the engine of `spec.kind`, not yet started. Raises ValueError if the spec contradicts itself."""
    if spec.kind is EngineKind.EXTERNAL:
        return ExternalEngine(spec)
    return ChildEngine(spec, _LAUNCHES[spec.kind](spec))
