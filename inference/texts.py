"""Text from outside as rows can hold it. Pure."""

from typing import Final

REPLACEMENT: Final = "\ufffd"


def sound(text: str) -> str:
    """Return the text without what a database refuses: NUL and lone surrogates become U+FFFD.

    Halves of a surrogate pair that stand side by side are one character.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\0", REPLACEMENT)
