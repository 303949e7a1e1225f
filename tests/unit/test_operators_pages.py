"""README.md and docs/operations.md name the variables and commands that the code has."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from inference.states import EngineKind
from project.stack import config, parts, ports
from project.stack.config import Options
from project.stack.credentials import Credentials

ROOT = Path(__file__).parents[2]
VARIABLE = re.compile(r"(SLUICE|DJANGO|FLOWER|REDIS|DATABASE)_[A-Z_]+")
NOT_OURS = {"DJANGO_SETTINGS_MODULE"}


def test_the_table_of_settings_has_every_variable_and_no_other() -> None:
    table = re.findall(r"^\| `([A-Z_]+)` \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(table) == len(set(table))
    assert set(table) == set(_variables()) - NOT_OURS


def _variables() -> Iterator[str]:
    """Names of variables among the strings of the code that runs; whoever reads one must write it out."""
    for folder in ("project", "inference", "workers", "examples"):
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if (
                    isinstance(node, ast.Constant)
                    and isinstance(node.value, str)
                    and VARIABLE.fullmatch(node.value)
                ):
                    yield node.value


def test_the_processes_are_started_as_up_starts_them(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    rows = dict(re.findall(r"^\| (\w+) \| [^|]+ \| `([^`]+)`", page, re.MULTILINE))
    options = Options(EngineKind.VLLM, "127.0.0.1", ports.any_free("127.0.0.1"), tmp_path, ("0",), None)
    made = {part.name: part.command for part in parts.build(config.build(options, Credentials(), {}))}
    assert set(rows) == {"web", "worker", "control", "beat", "flower"}
    for name, shown in rows.items():
        command = made["worker-1" if name == "worker" else name]
        assert _without_places(shown) == _without_places(" ".join(command[1:]))


def _without_places(command: str) -> str:
    """The command without what a site decides: addresses, names, and where the repository is."""
    return re.sub(r"(--(address|host|port|name|conf))[ =]\S+", r"\1", command.replace(f"{ROOT}/", ""))
