"""Results: lines on the terminal, `results.json`, and `results.md` made from it."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bench.goals import Goal
from bench.row import Measured, Row

FOLDER = Path(__file__).parent

Results = dict[str, Any]


def lines(row: Row, measured: Measured) -> list[str]:
    """Return a line for each goal, or one that says the row is only reported."""
    judged = [_judged(goal, measured.figures[goal.figure]) for goal in row.parsed_goals()]
    return [f"{row.id} {text}" for text in judged] or [f"{row.id} reported"]


def entry(row: Row, measured: Measured, facts: Mapping[str, str]) -> Results:
    """Return what is kept of a row: it stands for itself, since rows of different runs share one file."""
    return {
        "text": row.text,
        "goals": list(row.goals),
        "result": lines(row, measured),
        "figures": {name: _rounded(value) for name, value in measured.figures.items()},
        "notes": list(measured.notes),
        "measured": dict(facts),
    }


def merge(old: Results, new: Results) -> Results:
    """Return all rows, those of `new` in place of older ones: by letter, then by number."""
    return dict(sorted({**old, **new}.items(), key=lambda item: (item[0][0], int(item[0][1:]))))


def load(folder: Path = FOLDER) -> Results:
    """Read the last results; none if there are none."""
    path = folder / "results.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def save(results: Results, folder: Path = FOLDER) -> None:
    """Write both files."""
    (folder / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    (folder / "results.md").write_text(markdown(results), encoding="utf-8")


def markdown(results: Results) -> str:
    """Return the page: a table of all rows, then each with its figures and the machine it was measured on."""
    head = [
        "# Results of `make bench`",
        "",
        "Baselines are measured in the same run; ratios count, since machines differ. Written by the suite.",
        "",
        "| # | measure | result |",
        "|---|---|---|",
    ]
    table = [f"| {id_} | {row['text']} | {_shown(row['result'])} |" for id_, row in results.items()]
    return "\n".join([*head, *table, "", *_sections(results)])


def _sections(results: Results) -> Iterable[str]:
    for id_, row in results.items():
        yield from (f"## {id_}", "", "| figure | |", "|---|---|")
        yield from (f"| {name} | {value:g} |" for name, value in row["figures"].items())
        yield ""
        yield from (f"- {note}" for note in row["notes"])
        yield from (f"- {name}: {value}" for name, value in row["measured"].items())
        yield ""


def _judged(goal: Goal, value: float) -> str:
    verdict = "ok" if goal.is_met(value) else "short"
    return f"{goal.figure} {_rounded(value):g} goal {goal} {verdict}"


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _shown(result: Iterable[str]) -> str:
    """Return the printed lines as a cell of a table that has the row's id already."""
    return "<br>".join(line.partition(" ")[2].replace("<=", "≤").replace(">=", "≥") for line in result)
