"""Verbs on leases: claim, renew, ack, release, and finding those that ran out."""

import contextlib
import random
import secrets
from collections.abc import Iterator, Sequence
from typing import Any, Final
from uuid import UUID

from inference.broker import base, claims, keys, queues, scripts
from inference.broker.types import Claimed, Claims, DueLease, Ending, Renewal, Token
from inference.retries import Backoff
from inference.states import TERMINAL

_RENEWED: Final = 0
_LOST: Final = 1


class LeaseVerbs(base.Verbs):
    """What workers ask. A lease is fenced by the claim id: a token that is not the holder's changes nothing."""

    def claim(self, request: claims.Request) -> Claims:
        """Lease up to `limit` jobs, within `credit` and the guards, in the order of `inference.scheduling`.

        Plain queues (`control`) come first. Raises ValueError for queues of more than one model.
        """
        return claims.parse(self._call("claim", *claims.arguments(request)))

    def claim_command(self, request: claims.Request) -> tuple[Any, ...]:
        """Return the claim as one raw command for a connection of the caller's; answer read by `parse_claim`.

        The server may answer NOSCRIPT: then `load_claim` and send it again.
        """
        return claims.command(self.prefix, request)

    @staticmethod
    def parse_claim(reply: list[Any]) -> Claims:
        """Read the answer to a `claim_command`."""
        return claims.parse(reply)

    def load_claim(self) -> None:
        """Make the server know the claim script."""
        self.client.script_load(claims.script_text())

    def bell_keys(self, queues: Sequence[str]) -> list[str]:
        """Return the lists to BLPOP on for work in `queues`, after a claim that came back empty."""
        return [keys.bell(self.prefix, queue) for queue in queues]

    def renew(self, tokens: Sequence[Token], *, lease_seconds: float) -> Renewal:
        """Extend leases from now. Lost ones are absent, queued or another's; see `restore` for absent ones."""
        found = self._call("renew", _milliseconds(lease_seconds), *_raw(tokens)) if tokens else []
        states = list(zip(tokens, found, strict=True))
        return Renewal(
            lost=frozenset(token for token, state in states if state == _LOST),
            cancelled=frozenset(token for token, state in states if state not in {_RENEWED, _LOST}),
        )

    def restore(self, claimed: Claimed, *, worker: str, lease_seconds: float) -> bool:
        """Write a lease anew that Redis forgot, for a row that still has this claim id. False: held or queued."""
        fields: list[scripts.Argument] = [
            *queues.queue_arguments(claimed.queue),
            *_raw([claimed.token]),
            worker,
            _milliseconds(lease_seconds),
            claimed.tenant,
            claimed.prompt_tokens,
            claimed.expected_tokens,
            repr(claimed.estimate),
            claimed.arrival_ms,
            claimed.mailbox,
            int(claimed.streamed),
            claimed.body,
        ]
        return bool(self._call("restore", *fields))

    def ack(self, token: Token, *, status: str, used: float | None = None, tokens: int | None = None) -> bool:
        """Forget a finished job, and tell those who watch it `status`. False: not ours any more, nothing done.

        For a cancelled job it only drops the lease (and is True): `cancel` has told them already. So it does for
        one that runs under another claim: its watchers have its end still before them. Passes are corrected by
        what it used beside its estimate, rates by the `tokens` that it used beside those reserved (see `Ending`).
        """
        return self.ack_many([Ending(token, status, used, tokens)])[0]

    def ack_many(self, endings: Sequence[Ending]) -> list[bool]:
        """Do as `ack` does for each, in one call."""
        parts: list[scripts.Argument] = []
        for token, status, used, tokens, cost_nano, month in endings:
            parts += (
                *_raw([token]),
                status if status in TERMINAL else "",
                "" if used is None else repr(float(used)),
                "" if tokens is None else tokens,
                cost_nano or "",
                month,
            )
        return [bool(was_ours) for was_ours in self._call("ack", *parts)] if parts else []

    def release(
        self, token: Token, *, event: bool = True, backoff: Backoff | None = None, alone: bool = False
    ) -> bool:
        """Put a job back into its queue with its first arrival, and ring. False: not ours any more, nothing done.

        With `backoff` it waits as any other, but no claim takes it before its time; for how long goes by how often
        it came back so. It is `due` that lets it into the order. Of a task that is not a job it is only counted.

        If this claim had begun to send output and `event`, its watchers see `interrupted`. A cancelled job
        is dropped. What the claim charged is given back. `alone`: from now on it must run alone.
        """
        return bool(self._call("release", *_raw([token]), int(event), *_backoff_arguments(backoff), int(alone)))

    def missing(self, tokens: Sequence[Token], *, lease_seconds: float) -> set[Token]:
        """Those of `tokens`, all that have no lease, that had none at each look of any process for that long."""
        found = self._call("missing", _milliseconds(lease_seconds), *_raw(tokens))
        return {token for token, is_lost in zip(tokens, found, strict=True) if is_lost}

    def due(self, *, lease_seconds: float, limit: int = 100) -> list[DueLease]:
        """Leases that ran out by the server's clock; none until it could be asked for `lease_seconds` on end.

        Removes nothing: the row moves first. In that time come the renewals that did not get through while the
        server was down, stalled or failed over. Jobs whose backoff is over enter the order here, at any time.
        """
        hold_ms = _milliseconds(queues.RESERVATION_SECONDS)
        rows = self._call("due", _milliseconds(lease_seconds), limit, hold_ms)
        return [
            DueLease(_token(job_id, claim_id), queue.decode(), worker.decode(), int(failures), body)
            for job_id, claim_id, queue, worker, failures, body in rows
        ]

    @contextlib.contextmanager
    def lock(self, name: str, *, seconds: float) -> Iterator[bool]:
        """Hold a periodic task's own lease: False if another holds it. Ends with the block, or after `seconds`."""
        mine, key = secrets.token_bytes(16), keys.lock(self.prefix, name)
        is_ours = bool(self.client.set(key, mine, nx=True, px=_milliseconds(seconds)))
        try:
            yield is_ours
        finally:
            if is_ours:
                self._call("unlock", key, mine)


def _backoff_arguments(backoff: Backoff | None) -> list[scripts.Argument]:
    if backoff is None:
        return [0, 0, 0]
    share = random.uniform(backoff.least_share, 1.0)  # noqa: S311 (no secret)
    return [_milliseconds(backoff.first_seconds), _milliseconds(backoff.longest_seconds), repr(share)]


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _raw(tokens: Sequence[Token]) -> list[bytes]:
    return [part.bytes for token in tokens for part in (token.job_id, token.claim_id)]


def _token(job_id: bytes, claim_id: bytes) -> Token:
    return Token(UUID(bytes=job_id), UUID(bytes=claim_id))
