"""What kombu hands on with each message, and how it is settled when Celery is done with it."""

import contextlib
from typing import Any

from kombu.transport import virtual as kombu_virtual

from inference.broker.types import Token
from workers import envelope
from workers.held import HELD
from workers.settlement import SETTLER, TASK_DONE

virtual: Any = kombu_virtual
"""Its stubs leave out most of what is overridden here; `tests/unit/test_celery_contract.py` holds it instead."""


class QoS(virtual.QoS):  # type: ignore[misc]
    """Settles by token, on a connection that is not the channel's: it works after a reconnect too."""

    restore_at_shutdown = False

    def can_consume(self) -> bool:
        """Whether the channel may ask for messages, or waits for a reply that must be read in any case."""
        return bool(self.channel.may_consume(super().can_consume()))

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge; a job's execution has done that by itself."""
        settle(self._token(delivery_tag), requeue=False)
        super().ack(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:  # noqa: FBT001, FBT002 (kombu's signature)
        """Put back into the queue, or acknowledge."""
        settle(self._token(delivery_tag), requeue=requeue)
        self._quick_ack(delivery_tag)

    def _token(self, delivery_tag: str) -> Token | None:
        """Return the claim behind a tag, from the message itself if it is a job's: a tag takes long to read."""
        with contextlib.suppress(KeyError):  # of a channel that is gone, or not a job's
            return envelope.claim_of(self.get(delivery_tag).headers).token
        with contextlib.suppress(ValueError):
            return Token.parse(delivery_tag)
        return None


class Message(virtual.Message):  # type: ignore[misc]
    """A message whose body is not decoded if it is a job's, and so known."""

    def __init__(self, payload: dict[str, Any], channel: Any = None, **kwargs: Any) -> None:
        super().__init__(payload, channel=channel, **kwargs)
        if envelope.CLAIM_HEADER in self.headers:
            self._decoded_cache = envelope.NO_ARGUMENTS


def settle(token: Token | None, *, requeue: bool) -> None:
    """Ack or release what is still held: not a job, whose execution did it, nor what was never claimed."""
    if token is None or HELD.get(token) is None:
        return
    if requeue:
        SETTLER.release(token)
    else:
        SETTLER.ack(token, status=TASK_DONE)
