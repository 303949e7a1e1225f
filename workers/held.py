"""The claims that this process holds: added as they arrive, renewed by the lease keeper, dropped when settled."""

import threading
import time
from typing import Final

from inference.broker.types import Claimed, Token


class Held:
    """Every unacknowledged message of the process, whatever its pool. Thread-safe; outlives reconnections."""

    def __init__(self) -> None:
        self._claims: dict[Token, Claimed] = {}
        self._changed = threading.Condition()

    def add(self, claimed: Claimed) -> None:
        """Hold a claim from now on."""
        with self._changed:
            self._claims[claimed.token] = claimed

    def drop(self, token: Token) -> bool:
        """Hold it no more; False if it was not held."""
        with self._changed:
            was_held = self._claims.pop(token, None) is not None
            if not self._claims:
                self._changed.notify_all()
            return was_held

    def get(self, token: Token) -> Claimed | None:
        """Return the claim behind a token, if it is held."""
        return self._claims.get(token)

    def tokens(self) -> list[Token]:
        """Those held at this moment."""
        with self._changed:
            return list(self._claims)

    def wait_until_empty(self, *, seconds: float) -> bool:
        """Wait for the last one to be settled; False if that takes longer."""
        deadline = time.monotonic() + seconds
        with self._changed:
            return self._changed.wait_for(lambda: not self._claims, max(0.0, deadline - time.monotonic()))

    def __len__(self) -> int:
        return len(self._claims)


HELD: Final = Held()
"""The process's own."""
