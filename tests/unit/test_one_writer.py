"""Nothing but the life cycle writes a job's status."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = [
    path
    for package in ("inference", "workers", "project")
    for path in sorted((ROOT / package).rglob("*.py"))
    if "migrations" not in path.parts and path.parts[-2] != "lifecycle"
]
WRITES = {"update", "create", "bulk_update", "bulk_create", "get_or_create", "update_or_create", "Job"}


def writes_of_status(tree: ast.AST) -> Iterator[int]:
    """Lines that assign `x.status` (not `self.status`) or hand `status=` to what writes rows."""
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            if isinstance(target, ast.Attribute) and target.attr == "status" and not _is_self(target.value):
                yield node.lineno  # type: ignore[attr-defined]
        if isinstance(node, ast.Call) and _name(node.func) in WRITES and _hands_status(node):
            yield node.lineno


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _hands_status(call: ast.Call) -> bool:
    return any(keyword.arg == "status" for keyword in call.keywords)


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_but_the_life_cycle_writes_a_status(path: Path) -> None:
    source = path.read_text()

    assert list(writes_of_status(ast.parse(source))) == []
    assert "UPDATE inference_job" not in source


@pytest.mark.parametrize(
    "source",
    ["job.status = 'x'", "Job.objects.filter(id=1).update(status='x')", "Job(status='x')", "row.status += 'x'"],
)
def test_the_check_sees_each_way_to_write_one(source: str) -> None:
    assert list(writes_of_status(ast.parse(source))) == [1]
