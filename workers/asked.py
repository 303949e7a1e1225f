"""The states of a connection that claims."""

import enum


class Asked(enum.Enum):
    """What the consuming connection waits for."""

    NOTHING = enum.auto()
    CLAIM = enum.auto()
    BELL = enum.auto()
    """And behind it a claim, which the server takes as soon as the bell rings: no round trip lies between."""
