"""Checks of single fields, each with an error that names the field, the limit and the value."""

import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from inference.errors import InvalidRequest

MAX_DEPTH: Final = 64
MAX_VALUES: Final = 250_000
"""Values in one body, keys not counted: bounds the time that checking takes."""

INT64: Final = 2**63 - 1
MAX_TOKEN_ID: Final = 2**31 - 1
_SHOWN: Final = 40
_BLAMED: Final = re.compile(r"`?([a-z]\w*(?:\.\w+|\[\d+\])*)`?(?:: | must )")
_UNSOUND: Final = re.compile("[\0\ud800-\udfff]")
SOUND: Final = "must be text without NUL characters or lone surrogates"
"""The rule of `is_sound`."""


def wrong(path: str, rule: str, value: object) -> InvalidRequest:
    """Return the error: `path` breaks `rule` with `value`, of which only the beginning is told."""
    path = show_path(path)
    found = "but it is missing or null" if value is None else f"not {show(value)}"
    return InvalidRequest(f"{path} {rule}, {found}", param=path)


def blame(path: str, message: str) -> str:
    """Return what an engine said of a field, with its name first: only the message of a failed job is stored."""
    return f"{path}: {message}"


def blamed(message: str) -> str | None:
    """Return the field that the message of a job refused by its engine begins with, if it does."""
    found = _BLAMED.match(message)
    return found[1] if found else None


def show(value: object) -> str:
    """Return the value for a message, cut: never a whole prompt."""
    if isinstance(value, list | dict):
        return kind(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > 256:
        return "a number of more than 77 digits"  # Python refuses to print very long ones
    shown = repr(value[:_SHOWN] if isinstance(value, str) else value)
    is_cut = len(shown) > _SHOWN or (isinstance(value, str) and len(value) > _SHOWN)
    return f"{shown[:_SHOWN]}…" if is_cut else shown


def kind(value: object) -> str:
    """Return the name that JSON has for the value's type."""
    if isinstance(value, list | dict):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    return {type(None): "null", bool: "a boolean", str: "a string"}.get(type(value), "a number")


def is_integer(value: object) -> bool:
    """Whether the value is a whole number; `true` is none, though Python says so."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_sound(value: str) -> bool:
    """Whether it is text that a database, an engine and JSON can hold."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in value


def check_values(body: Mapping[str, Any]) -> None:
    """Check every value in the body, however deep: what neither database nor engine could hold is refused."""
    for path, value in _walk(body):
        if isinstance(value, str):
            _check_text(path, value)
        elif isinstance(value, float) and not math.isfinite(value):
            raise wrong(path, "must be a finite number", value)
        elif is_integer(value) and not -(2**64) < value < 2**64:
            raise wrong(path, "must be a number of at most 64 bits", value)


def text(body: Mapping[str, Any], name: str, *, required: bool = False, path: str = "") -> str:
    """Return a string field, "" if it is absent; `path` is where the body is, here and below."""
    value = body.get(name)
    if value is None and not required:
        return ""
    if not isinstance(value, str) or (required and not value):
        raise wrong(f"{path}{name}", "must be a non-empty string" if required else "must be a string", value)
    return value


def flag(body: Mapping[str, Any], name: str, *, path: str = "") -> bool | None:
    """Return a boolean field, None if it is absent."""
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise wrong(f"{path}{name}", "must be true or false", value)
    return value


def integer(body: Mapping[str, Any], name: str, *, low: int, high: int) -> int | None:
    """Return a whole number from `low` to `high`, None if it is absent."""
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise wrong(name, f"must be a whole number from {low} to {high}", value)
    return value


def number(body: Mapping[str, Any], name: str, *, low: float, high: float, above: bool = False) -> None:
    """Check a number from `low` to `high`, if it is there; `above` excludes `low` itself."""
    value = body.get(name)
    if value is None:
        return
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not low <= value <= high or (above and value == low):
        wanted = f"above {low} and at most {high}" if above else f"from {low} to {high}"
        raise wrong(name, f"must be a number {wanted}", value)


def mapping(body: Mapping[str, Any], name: str, *, path: str = "") -> None:
    """Check an object, if it is there."""
    value = body.get(name)
    if value is not None and not isinstance(value, dict):
        raise wrong(f"{path}{name}", "must be an object", value)


def integers(body: Mapping[str, Any], name: str, *, low: int, high: int) -> None:
    """Check a list of whole numbers from `low` to `high`, if it is there."""
    values = body.get(name)
    if values is None:
        return
    if not isinstance(values, list):
        raise wrong(name, "must be a list of whole numbers", values)
    for i, value in enumerate(values):
        if not is_integer(value) or not low <= value <= high:
            raise wrong(f"{name}[{i}]", f"must be a whole number from {low} to {high}", value)


def one_of(body: Mapping[str, Any], name: str, known: Collection[str], *, path: str = "") -> None:
    """Check a string that is one of those known, if it is there."""
    value = body.get(name)
    if value is not None and not (isinstance(value, str) and value in known):
        raise wrong(f"{path}{name}", f"must be one of {', '.join(known)}", value)


def objects(body: Mapping[str, Any], name: str) -> None:
    """Check a list of objects, if it is there."""
    value = body.get(name)
    if value is not None and not (isinstance(value, list) and all(isinstance(v, dict) for v in value)):
        raise wrong(name, "must be a list of objects", value)


def texts(body: Mapping[str, Any], name: str) -> None:
    """Check a non-empty string or a list of such, if it is there."""
    value = body.get(name)
    values = value if isinstance(value, list) else [value]
    if value is not None and not all(isinstance(v, str) and v for v in values):
        raise wrong(name, "must be a non-empty string or a list of such", value)


def strings(body: Mapping[str, Any], name: str) -> None:
    """Check a list of non-empty strings, if it is there."""
    value = body.get(name)
    if value is not None and not (isinstance(value, list) and all(isinstance(v, str) and v for v in value)):
        raise wrong(name, "must be a list of non-empty strings", value)


def _walk(body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each value below the body with its path, without recursion: the depth is the client's."""
    waiting: list[tuple[str, Any, int]] = [("", body, 0)]
    count = 0
    while waiting:
        path, value, depth = waiting.pop()
        if depth:
            yield path, value
        if not isinstance(value, Mapping | list):
            continue
        count += len(value)
        if count > MAX_VALUES:
            raise InvalidRequest(f"body: at most {MAX_VALUES} values, not {count} or more")
        if depth > MAX_DEPTH:
            raise InvalidRequest(f"{show_path(path)}: at most {MAX_DEPTH} levels deep", param=show_path(path))
        waiting += [(place, inner, depth + 1) for place, inner in _children(path, value)]


def _children(path: str, value: Mapping[str, Any] | list[Any]) -> Iterator[tuple[str, Any]]:
    path = show_path(path)  # cut here: a name of a megabyte above many values would be held once for each of them
    if isinstance(value, list):
        for i, inner in enumerate(value):
            yield f"{path}[{i}]", inner
        return
    for name, inner in value.items():
        if not isinstance(name, str):
            raise InvalidRequest(f"{show_path(path)}: names of fields must be strings")
        if not is_sound(name):
            message = f"{path or 'body'}: the name of a field {SOUND}, not {show(name)}: {_unsound_at(name)}"
            raise InvalidRequest(message, param=path or "body")
        yield (f"{path}.{name}" if path else name), inner


def show_path(path: str) -> str:
    """Return the path for a message, cut."""
    return path if len(path) <= 100 else f"{path[:100]}…"


def _check_text(path: str, value: str) -> None:
    if not is_sound(value):
        raise InvalidRequest(f"{show_path(path)} {SOUND}, but {_unsound_at(value)}", param=show_path(path))


def _unsound_at(value: str) -> str:
    """Say what is wrong where; nothing of the text around it, which may be a prompt."""
    found = next(_UNSOUND.finditer(value))
    return f"character {found.start() + 1} of {len(value)} is U+{ord(found[0]):04X}"
