"""The bundled model is converted once, whole or not at all."""

import io
import json
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from workers import bundled_model


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "models" / bundled_model.NAME


def _write_config(_gguf: Path, folder: Path) -> None:
    (folder / "config.json").write_text("{}")


def test_the_weights_are_found_in_the_package() -> None:
    assert bundled_model.weights().stat().st_size > 50_000_000


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, models_dir: Path) -> None:
    monkeypatch.setattr(bundled_model, "PACKAGE", "no-such-package")
    with pytest.raises(CommandError, match="no-such-package"):
        call_command("fetch_model")


def test_a_model_that_is_there_is_not_converted_again(models_dir: Path) -> None:
    (models_dir / bundled_model.NAME).mkdir()
    _write_config(Path(), models_dir / bundled_model.NAME)
    said = io.StringIO()

    call_command("fetch_model", stdout=said)

    assert "already" in said.getvalue()


def test_a_converted_model_has_its_name_and_may_be_read_by_others(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundled_model, "_write", _write_config)

    bundled_model.convert(target)

    assert bundled_model.is_ready(target)
    assert target.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in target.parent.iterdir()] == [bundled_model.NAME]


def test_a_conversion_that_fails_leaves_nothing(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_gguf: Path, folder: Path) -> None:
        _write_config(_gguf, folder)
        raise OSError("disk full")

    monkeypatch.setattr(bundled_model, "_write", fail)
    with pytest.raises(OSError, match="disk full"):
        bundled_model.convert(target)
    assert not list(target.parent.iterdir())


def test_of_two_conversions_at_once_both_succeed(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def meanwhile(_gguf: Path, folder: Path) -> None:
        _write_config(_gguf, folder)
        target.mkdir()
        _write_config(_gguf, target)

    monkeypatch.setattr(bundled_model, "_write", meanwhile)
    bundled_model.convert(target)
    assert bundled_model.is_ready(target)


@pytest.mark.engine
def test_the_converted_model_samples_as_its_card_says() -> None:
    told = json.loads((settings.MODELS_DIR / bundled_model.NAME / "generation_config.json").read_text())
    assert told.items() >= bundled_model.SAMPLING.items(), "of an earlier checkout: `make distclean setup`"
