"""The command line of `manage.py up`: devices of its workers, and what is said of a wrong one."""

import io
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from inference.states import EngineKind
from project.management.commands import up
from project.stack import config, parts, ports
from project.stack.config import Options, StackError
from project.stack.credentials import Credentials


@pytest.mark.parametrize(
    ("named", "count", "devices"),
    [
        ([], None, ("cpu",)),
        ([], 3, ("cpu", "cpu", "cpu")),
        ([], 0, ()),
        (["0", "1"], None, ("0", "1")),
        (["0,1", "2,3"], 2, ("0,1", "2,3")),
        (["cpu", "cpu"], 2, ("cpu", "cpu")),
    ],
)
def test_each_worker_has_a_device(named: list[str], count: int | None, devices: tuple[str, ...]) -> None:
    assert config.devices_of_workers(named, count) == devices


def test_more_workers_than_devices_are_refused() -> None:
    with pytest.raises(StackError, match="--workers 3 and --device 0 --device 1 do not agree"):
        config.devices_of_workers(["0", "1"], 3)


def test_two_engines_on_one_gpu_are_refused() -> None:
    with pytest.raises(StackError, match="1 is named twice"):
        config.devices_of_workers(["0,1", "1"], None)


def test_a_worker_is_started_on_its_device(tmp_path: Path) -> None:
    made = config.build(make_options(tmp_path, EngineKind.VLLM, devices=("0,1", "2")), Credentials(), {})
    commands = [part.command for part in parts.build(made) if part.name.startswith("worker")]
    assert [command[command.index("--device") + 1] for command in commands] == ["0,1", "2"]


def test_a_worker_is_started_with_its_patterns(tmp_path: Path) -> None:
    served = config.patterns_of_workers(["2=*.realtime.*", "2=*.bulk.short"], 2)
    options = make_options(tmp_path, EngineKind.SIM, devices=("cpu", "cpu"), serve=served)
    made = config.build(options, Credentials(), {})
    commands = [part.command for part in parts.build(made) if part.name.startswith("worker")]
    patterns = [[word for word in command if word.startswith("--serve")] for command in commands]
    assert patterns == [[], ["--serve=*.realtime.*", "--serve=*.bulk.short"]]


@pytest.mark.parametrize("wrong", ["*.realtime.*", "3=*.bulk.*", "0=*.bulk.*", "1=", "one=*.bulk.*"])
def test_patterns_name_a_worker_that_there_is(wrong: str) -> None:
    with pytest.raises(StackError, match=r"N=PATTERN.* from 1 to 2"):
        config.patterns_of_workers([wrong], 2)


def test_a_device_for_an_external_engine_is_refused(tmp_path: Path) -> None:
    options = make_options(tmp_path, EngineKind.EXTERNAL, devices=("0",))
    with pytest.raises(StackError, match="external engine has none"):
        config.build(options, Credentials(), {})


def make_options(state_dir: Path, engine: EngineKind, *, devices: tuple[str, ...], **more: Any) -> Options:
    port = ports.any_free("127.0.0.1")
    url = "http://gpu-7/v1"
    return Options(engine, "127.0.0.1", port, state_dir, devices=devices, ready_file=None, engine_url=url, **more)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--port", "99999"), "'99999' is not a whole number from 1 to 65535"),
        (("--port", "http"), "'http' is not a whole number from 1 to 65535"),
        (("--workers", "-1"), "'-1' is not a whole number from 0 to 64"),
        (("--engine", "gpt"), "invalid choice: 'gpt' (choose from"),
        (("--device", "gpu"), "'gpu' is neither 'cpu' nor a GPU's number or id"),
    ],
)
def test_a_wrong_option_is_told_with_what_is_right(
    words: tuple[str, str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        up.Command().run_from_argv(["manage.py", "up", "=".join(words)])
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--state", "--ready-file"])
def test_a_folder_that_cannot_be_made_is_told_before_anything_starts(option: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    words = {"--state": tmp_path / "state", option: tmp_path / "file" / "new" / "place"}
    with pytest.raises(CommandError, match=rf"{option}: nothing can be written in .*file"):
        call_command(
            "up", "--engine=sim", *(f"{name}={path}" for name, path in words.items()), stdout=io.StringIO()
        )
