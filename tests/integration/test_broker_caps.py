"""A place under a cap that is reached: its end wakes whoever was held back."""

from collections.abc import Callable

import pytest

from inference.broker import Broker, Cap, Token
from tests.integration.broker_jobs import QUEUE, claim, make_entry

OTHER = QUEUE.replace("short", "long")
CAPS = (Cap((QUEUE, OTHER), 1),)


def rings(broker: Broker, queue: str) -> int:
    """How often the bell of a queue rang that nobody has heard yet."""
    return int(broker.client.llen(f"{broker.prefix}bell:{queue}"))


def held_back(broker: Broker) -> Token:
    """The one job that the cap lets run, while another waits that a second worker may not have."""
    broker.publish([make_entry(), make_entry(queue=OTHER)])
    (running,) = claim(broker, [QUEUE, OTHER], caps=CAPS)
    assert claim(broker, [QUEUE, OTHER], caps=CAPS, worker="worker-2") == []
    waiting = OTHER if running.queue == QUEUE else QUEUE
    assert rings(broker, waiting) == 0
    return running.token


@pytest.mark.parametrize(
    "end",
    [
        lambda broker, token: broker.ack(token, status="succeeded"),
        lambda broker, token: broker.discard([token.job_id]),
        lambda broker, token: broker.release(token),
    ],
    ids=["ack", "discard", "release"],
)
def test_a_lease_that_ends_wakes_those_that_its_cap_held_back(
    broker: Broker, end: Callable[[Broker, Token], object]
) -> None:
    running = held_back(broker)

    assert end(broker, running)
    assert rings(broker, QUEUE) + rings(broker, OTHER) >= 1
    assert claim(broker, [QUEUE, OTHER], caps=CAPS, worker="worker-2")


def test_the_bell_of_what_waits_is_the_one_that_rings(broker: Broker) -> None:
    broker.publish([make_entry(arrival_ms=1), make_entry(queue=OTHER, arrival_ms=2)])
    (running,) = claim(broker, [QUEUE, OTHER], caps=CAPS)
    claim(broker, [QUEUE, OTHER], caps=CAPS, worker="worker-2")

    broker.ack(running.token, status="succeeded")
    assert (running.queue, rings(broker, QUEUE), rings(broker, OTHER)) == (QUEUE, 0, 1)


def test_nobody_is_woken_for_a_cap_that_is_not_reached(broker: Broker) -> None:
    broker.publish([make_entry()])
    (running,) = claim(broker, caps=(Cap((QUEUE,), 2),))
    claim(broker, caps=(Cap((QUEUE,), 2),), worker="worker-2")

    broker.ack(running.token, status="succeeded")
    assert rings(broker, QUEUE) == 0
