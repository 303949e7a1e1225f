"""The prompts of the demo: a file in OpenAI's batch format."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).resolve().parent.parent / "prompts.jsonl"


@dataclass(frozen=True, slots=True)
class Prompt:
    """One line of the file."""

    name: str
    path: str
    body: dict[str, Any]

    @property
    def service_tier(self) -> str:
        """OpenAI's name of the tier that it asks for."""
        return str(self.body.get("service_tier", "default"))


def read(path: Path = FILE) -> list[Prompt]:
    """All prompts, in the file's order."""
    return [_parse(line) for line in path.read_text().splitlines() if line.strip()]


def _parse(line: str) -> Prompt:
    entry = json.loads(line)
    return Prompt(name=entry["custom_id"], path=entry["url"], body=entry["body"])
