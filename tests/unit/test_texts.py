"""Text that no database refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference import texts


@pytest.mark.parametrize(
    ("text", "sound"),
    [
        ("plain", "plain"),
        ("", ""),
        ("a\0b", "a\ufffdb"),
        ("half \ud83d", "half \ufffd"),
        ("\ude00 other half", "\ufffd other half"),
        ("\ud83d\ude00", "😀"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("😀 and \ud83d\0", "😀 and \ufffd\ufffd"),
    ],
)
def test_what_cannot_be_stored_is_replaced(text: str, sound: str) -> None:
    assert texts.sound(text) == sound


@given(st.text(st.characters(exclude_categories=())))
def test_what_comes_out_is_always_utf8_without_nul(text: str) -> None:
    found = texts.sound(text)
    assert "\0" not in found
    assert found.encode().decode() == found
    assert texts.sound(found) == found
