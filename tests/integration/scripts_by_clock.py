"""Scripts that go by a clock of the tests: what waits for time to pass waits for that."""

import shutil
from collections.abc import Iterator
from typing import Final

import pytest

from inference.broker import Broker, scripts

START_MS: Final = 1_700_000_000_000
CLOCK: Final = "local function now_ms() return tonumber(call('GET', P .. 'clock')) end\n"


@pytest.fixture(scope="module", autouse=True)
def scripts_on_a_clock_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder, original = tmp_path_factory.mktemp("scripts") / "lua", scripts.FOLDER
    shutil.copytree(original, folder)
    (folder / "clock.lua").write_text(CLOCK)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scripts, "FOLDER", folder)
        scripts.get.cache_clear()
        yield
    scripts.get.cache_clear()


def set_clock(broker: Broker, now_ms: int) -> None:
    broker.client.set(f"{broker.prefix}clock", now_ms)
