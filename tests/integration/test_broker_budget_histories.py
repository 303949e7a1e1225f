"""No random history passes a budget: the broker's budgets beside the pure decision, and beside plain books."""

import secrets
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from inference import broker as broker_module
from inference.admission import decisions
from inference.admission.decisions import Amount, Facts, QueueFacts
from inference.admission.windows import MINUTE, SECOND, Window
from inference.broker import Broker, Claimed, Ending
from tests.integration import broker_jobs
from tests.integration.broker_jobs import QUEUE, make_entry
from tests.integration.test_broker_budgets import ANN, MONTH, asked, ids, know, standing


def facts(ann: tuple[int | None, int]) -> Facts:
    """How all stands where nothing but spending can refuse."""
    nothing = QueueFacts(jobs=0, tokens=0, bytes=0, model_bytes=0, line_jobs=0, line_work_ms=0, leases=0)
    return Facts(
        now_ms=0,
        second=Window(SECOND),
        minute=Window(MINUTE),
        tenant_minute=Window(MINUTE),
        tenant_queued=0,
        tenant_unfinished=0,
        spending={ANN: ann},
        queues={QUEUE: nothing},
    )


@dataclass
class Books:
    """What should be known: the database's sum, and what is reserved."""

    broker: Broker
    database: int = 0
    reserved: dict[UUID, int] = field(default_factory=dict)
    claimed: list[Claimed] = field(default_factory=list)
    read: tuple[dict[str, int], int] | None = None

    def admit(self, cost: int) -> None:
        [job_id] = ids()
        taken = self.database + sum(self.reserved.values())
        wanted = asked([job_id], ann=500, cost=cost)
        expected = decisions.decide(wanted, {QUEUE: Amount(1, cost, 300, 0, cost)}, facts(standing(self.broker)))
        answer = self.broker.admit(wanted)
        assert answer.refusal == expected
        if answer.accepted:
            assert taken + cost <= 500
            self.broker.publish([make_entry(job_id=job_id)])
            self.reserved[job_id] = cost

    def claim(self, _: int) -> None:
        self.claimed += broker_jobs.claim(self.broker, limit=1)

    def finish(self, cost: int) -> None:
        if self.claimed:
            claimed = self.claimed.pop()
            self.database += cost  # the commit, then its acknowledgement
            self.broker.ack_many([Ending(claimed.token, "succeeded", cost_nano=cost, month="2026-11")])
            del self.reserved[claimed.token.job_id]

    def drop(self, _: int) -> None:
        if self.claimed:
            claimed = self.claimed.pop()
            self.broker.discard([claimed.token.job_id])
            del self.reserved[claimed.token.job_id]

    def begin(self, _: int) -> None:
        self.read = self.broker.begin_spending([ANN], MONTH), self.database

    def end(self, _: int) -> None:
        if self.read:
            begun, found = self.read
            self.broker.end_spending(begun, MONTH, {ANN: found})
            self.read = None

    def check(self) -> None:
        """Hold the broker against the books: spending may count twice for a while, never less than once."""
        spent, reserved = standing(self.broker)
        assert reserved == sum(self.reserved.values())
        assert spent is not None
        assert spent >= self.database


STEPS: Final = st.sampled_from(("admit", "claim", "finish", "drop", "begin", "end"))


@settings(max_examples=30)
@given(st.lists(st.tuples(STEPS, st.integers(1, 120)), max_size=60))
def test_no_history_passes_a_budget_or_forgets_what_was_spent(valkey: str, history: list[tuple[str, int]]) -> None:
    broker = Broker(broker_module.connect(valkey), prefix=f"{{budgets-{secrets.token_hex(6)}}}:")
    know(broker)
    books = Books(broker)
    for step, number in history:
        getattr(books, step)(number)
        books.check()
    know(broker, books.database)

    assert standing(broker) == (books.database, sum(books.reserved.values()))
