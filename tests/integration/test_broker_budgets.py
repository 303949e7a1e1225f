"""What budgets count in the broker: costs reserved until jobs end, and what is spent."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from typing import Any, Final
from uuid import UUID

import pytest
import uuid_utils.compat

from inference.admission.terms import Answer, Asked, Reason, Wanted
from inference.broker import Broker, Claimed, Ending, queues
from inference.charges import UnitCosts
from inference.limits import Budget
from tests.integration import broker_jobs
from tests.integration.broker_jobs import QUEUE, make_entry

MONTH: Final = date(2026, 11, 1)
ANN, KEY = "tenant=ann", "key=sk-ann"
COST: Final = 100
"""Of a job: its prompt has so many tokens, and only they cost something."""


def asked(ids: list[UUID], *, ann: int = 10**9, key: int | None = None, cost: int = COST) -> Asked:
    """Ask for room for jobs of this cost each, against the budgets of the tenant and perhaps its key."""
    budgets = [Budget("ann", "", ann)] + ([Budget("ann", "sk-ann", key)] if key is not None else [])
    plain = broker_jobs.asked(QUEUE, ids, budgets=budgets, month="2026-11")
    [terms] = plain.queues
    jobs = [Wanted(job_id, QUEUE, cost, 1000, 300) for job_id in ids]
    return replace(plain, queues=[replace(terms, costs=UnitCosts(prompt_token=1))], jobs=jobs)


def ids(count: int = 1) -> list[UUID]:
    return [uuid_utils.compat.uuid7() for _ in range(count)]


def know(broker: Broker, spent: int = 0, *payers: str) -> None:
    """Tell the broker what the database says."""
    begun = broker.begin_spending(payers or (ANN, KEY), MONTH)
    broker.end_spending(begun, MONTH, dict.fromkeys(begun, spent))


def standing(broker: Broker, payer: str = ANN) -> tuple[int | None, int]:
    return broker.spending([payer], MONTH)[payer]


def refusal(answer: Answer) -> tuple[str, str, int, int, int, int]:
    """What refuses, and its numbers. Raises AssertionError if nothing does."""
    found = answer.refusal
    assert found
    return str(found.reason), found.name, found.limit, found.value, found.asked, found.spent


def test_a_budget_is_kept_to_the_last_billionth(broker: Broker) -> None:
    know(broker, 600)

    assert broker.admit(asked(ids(), ann=1000, cost=300)).accepted
    assert refusal(broker.admit(asked(ids(), ann=1000, cost=101))) == ("budget", ANN, 1000, 900, 101, 600)
    assert broker.admit(asked(ids(), ann=1000, cost=100)).accepted
    assert standing(broker) == (600, 400)


def test_a_keys_budget_holds_beside_its_tenants(broker: Broker) -> None:
    know(broker)

    assert refusal(broker.admit(asked(ids(3), key=250))) == ("budget", KEY, 250, 0, 300, 0)
    assert broker.admit(asked(ids(2), key=250)).accepted
    assert refusal(broker.admit(asked(ids(), ann=250, key=10**9))) == ("budget", ANN, 250, 200, 100, 0)


def test_while_it_is_not_known_what_was_spent_only_what_is_free_is_taken(broker: Broker) -> None:
    answer = broker.admit(asked(ids()))

    assert answer.refusal is not None
    assert answer.refusal.reason is Reason.SPENT_UNKNOWN
    assert broker.admit(asked(ids(), cost=0)).accepted
    assert standing(broker) == (None, 0)


def test_many_at_once_pass_a_budget_by_nothing(broker: Broker) -> None:
    know(broker)
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: broker.admit(asked(ids(2), ann=50 * COST)).accepted, range(200)))

    assert answers.count(True) == 25
    assert standing(broker) == (0, 50 * COST)


End = Callable[[Broker, Claimed], Any]
ENDS: Final[dict[str, End]] = {
    "ack": lambda broker, claimed: broker.ack(claimed.token, status="succeeded"),
    "cancel, then ack": lambda broker, claimed: [
        broker.cancel(claimed.token.job_id),
        broker.ack(claimed.token, status="cancelled"),
    ],
    "discard": lambda broker, claimed: broker.discard([claimed.token.job_id]),
    "release, then cancel": lambda broker, claimed: [
        broker.release(claimed.token),
        broker.cancel(claimed.token.job_id),
    ],
    "cancel, then release": lambda broker, claimed: [
        broker.cancel(claimed.token.job_id),
        broker.release(claimed.token),
    ],
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_cost_is_reserved_until_the_job_ends(broker: Broker, end: End) -> None:
    know(broker)
    [job_id] = ids()
    broker.admit(asked([job_id], key=10**9))
    broker.publish([make_entry(job_id=job_id)])
    [claimed] = broker_jobs.claim(broker)
    assert (standing(broker), standing(broker, KEY)) == ((0, COST), (0, COST))
    broker.release(claimed.token)
    [claimed] = broker_jobs.claim(broker)
    assert standing(broker) == (0, COST)
    end(broker, claimed)

    assert (standing(broker), standing(broker, KEY)) == ((0, 0), (0, 0))
    assert {"costs", "p"} & broker_jobs.keys(broker) == set()


def test_what_is_withdrawn_or_not_published_in_time_is_reserved_no_longer(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    know(broker)
    withdrawn = ids(2)
    broker.admit(asked(withdrawn))
    broker.withdraw("key=sk-ann", withdrawn)
    assert standing(broker) == (0, 0)
    monkeypatch.setattr(queues, "RESERVATION_SECONDS", 0)
    broker.admit(asked(ids()))
    broker.due(lease_seconds=60)

    assert standing(broker) == (0, 0)


def finish(broker: Broker, cost: int) -> None:
    """Run a job that is expected to cost COST and really costs this much."""
    [job_id] = ids()
    assert broker.admit(asked([job_id])).accepted
    broker.publish([make_entry(job_id=job_id)])
    [claimed] = broker_jobs.claim(broker)
    broker.ack_many([Ending(claimed.token, "succeeded", cost_nano=cost, month="2026-11")])


def test_what_a_job_really_cost_counts_from_its_acknowledgement_on(broker: Broker) -> None:
    know(broker, 1000)
    finish(broker, 70)

    assert standing(broker) == (1070, 0)
    assert standing(broker, KEY) == (1000, 0)


def test_what_ends_while_the_database_is_read_is_counted_until_the_next_read(broker: Broker) -> None:
    know(broker, 1000)
    finish(broker, 1)
    begun = broker.begin_spending([ANN], MONTH)
    finish(broker, 20)
    broker.end_spending(begun, MONTH, {ANN: 1001})
    assert standing(broker) == (1021, 0)
    know(broker, 1021)

    assert standing(broker) == (1021, 0)


def test_of_two_reads_at_once_the_later_counts(broker: Broker) -> None:
    early, late = broker.begin_spending([ANN], MONTH), broker.begin_spending([ANN], MONTH)

    assert broker.end_spending(late, MONTH, {ANN: 7}) == 1
    assert broker.end_spending(early, MONTH, {ANN: 5}) == 0
    assert standing(broker) == (7, 0)


def test_while_nothing_is_known_an_earlier_read_is_better_than_none(broker: Broker) -> None:
    early = broker.begin_spending([ANN], MONTH)
    know(broker, 0, KEY)
    begun = broker.begin_spending([ANN], MONTH)

    assert broker.end_spending(early, MONTH, {ANN: 1000}) == 1
    finish(broker, 20)
    assert standing(broker) == (1020, 0)
    assert broker.end_spending(begun, MONTH, {ANN: 1000}) == 1
    assert standing(broker) == (1020, 0)


def test_a_job_that_ends_in_the_next_month_is_paid_from_that_one(broker: Broker) -> None:
    know(broker, 1000)
    next_month = date(2026, 12, 1)
    broker.end_spending(broker.begin_spending([ANN], next_month), next_month, {ANN: 0})
    [job_id] = ids()
    broker.admit(asked([job_id]))
    broker.publish([make_entry(job_id=job_id)])
    assert broker.spending([ANN], next_month)[ANN] == (0, COST)

    [claimed] = broker_jobs.claim(broker)
    broker.ack_many([Ending(claimed.token, "succeeded", cost_nano=70, month="2026-12")])

    assert standing(broker) == (1000, 0)
    assert broker.spending([ANN], next_month)[ANN] == (70, 0)


def test_months_are_apart(broker: Broker) -> None:
    know(broker, 1000)

    assert broker.spending([ANN], date(2026, 12, 1))[ANN] == (None, 0)


def test_costs_of_jobs_that_are_nowhere_are_swept_away(broker: Broker) -> None:
    know(broker)
    lost, kept = ids(2)
    broker.admit(asked([lost, kept]))
    broker.client.delete(f"{broker.prefix}v:".encode() + lost.bytes)

    assert broker.sweep_costs(ANN) == ("0", 1)
    assert standing(broker) == (0, COST)
    assert broker.sweep_costs(ANN) == ("0", 0)
