"""In which order the parts of a whole run come; within each the order is random. A plugin loaded with `-p`.

What a part starts runs to the end, and takes its share of the machine from all that come later: a stack that
nobody asks anything keeps a fifteenth of a core busy. So what starts nothing comes first, and each shared stack as
late as may be.
"""

from typing import Final

import pytest

FOLDERS: Final = ("tests/unit/", "tests/integration/", "tests/engine/", "tests/acceptance/", "tests/browser/")
KILLERS: Final = "tests/engine/test_engine_deaths.py"
"""After them the engine must load again, which takes vLLM a minute."""
SHARED: Final = ("fault_stack", "workerless", "stack")
"""Fixtures of the session; a test that has none of them starts and stops its own."""


@pytest.hookimpl(trylast=True)  # after what shuffles them
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests by their part."""
    items.sort(key=part)


def part(item: pytest.Item) -> tuple[int, bool, int]:
    """The larger, the later. Units and integration are one part."""
    folder = next((i for i, folder in enumerate(FOLDERS) if item.nodeid.startswith(folder)), 0)
    names = getattr(item, "fixturenames", ())
    shared = max((i for i, name in enumerate(SHARED, start=1) if name in names), default=0)
    return max(folder, 1), item.nodeid.startswith(KILLERS), shared
