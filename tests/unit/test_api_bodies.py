"""Bodies are parsed strictly, and what is wrong is named."""

import pytest

from inference import errors
from inference.api import bodies


def test_an_object_is_parsed() -> None:
    assert bodies.parse('{"prompt": "Grüße 🙂", "n": 1}'.encode()) == {"prompt": "Grüße 🙂", "n": 1}


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b'{"a": "\xff\xfe"}', "not valid UTF-8 at byte 8"),
        (b"[" * 5000, "not valid JSON"),
        (b"[]", "must be a JSON object, got an array"),
        (b'"text"', "must be a JSON object, got a string"),
        (b"null", "must be a JSON object, got null"),
        (b"true", "must be a JSON object, got a boolean"),
        (b"7", "must be a JSON object, got a number"),
    ],
)
def test_anything_else_is_the_callers_fault(raw: bytes, says: str) -> None:
    with pytest.raises(errors.InvalidRequest, match=says) as caught:
        bodies.parse(raw)
    assert caught.value.status == 400
    assert caught.value.param == "body"


def test_an_error_does_not_carry_the_body_along() -> None:
    with pytest.raises(errors.InvalidRequest) as caught:
        bodies.parse(b'{"prompt": "a secret"')
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_body_that_is_too_large_is_told_the_limit_and_its_size() -> None:
    error = bodies.too_large(10_000_000)
    assert error.status == 413
    assert "8388608" in error.message
    assert "10000000" in error.message


def test_a_lone_surrogate_passes_so_that_its_field_can_be_named() -> None:
    assert bodies.parse(b'{"prompt": "\\ud800"}') == {"prompt": "\ud800"}
