"""What finished calls taught: read with an admission, kept from overwriting, forgotten in time."""

from dataclasses import replace

import pytest
import uuid_utils.compat

from inference.broker import Broker, LengthOf, Lessons
from inference.estimates import NOTHING, Learned, Output, Speed
from tests.integration import broker_jobs
from tests.integration.broker_jobs import QUEUE

MODEL, LENGTH = QUEUE.split(".")[0], QUEUE.split(".")[2]
KEY = LengthOf("key=sk-abcd1234", LENGTH)
SPEED = Speed(20.0, 1.5, 2.5e-7, 3e9, 400.0, 500.25)


def teach(broker: Broker, output: Output, speed: Speed = SPEED) -> Lessons:
    before = broker.lessons(MODEL, [KEY])
    broker.learn(before, replace(before, speed=speed, outputs={KEY: output}))
    return broker.lessons(MODEL, [KEY])


def admit(broker: Broker, *, owner: str = KEY.owner, queue: str = QUEUE, cap: int = 10) -> Learned:
    job_ids = [uuid_utils.compat.uuid7()]
    return broker_jobs.admit(broker, queue, job_ids, cap=cap, owner=owner).learned[queue]


def test_nothing_is_known_of_what_never_ran(broker: Broker) -> None:
    assert admit(broker) == NOTHING
    assert broker.lessons(MODEL, [KEY]).outputs == {KEY: None}
    assert broker.speeds([MODEL, "other"]) == {MODEL: None, "other": None}


def test_what_was_learned_comes_with_the_admission_refused_or_not(broker: Broker) -> None:
    teach(broker, Output(31.25, 7))
    assert admit(broker) == Learned(Output(31.25, 7), SPEED)
    assert admit(broker, cap=0) == Learned(Output(31.25, 7), SPEED)
    assert broker.speeds([MODEL]) == {MODEL: SPEED}


def test_keys_length_classes_and_models_are_kept_apart(broker: Broker) -> None:
    teach(broker, Output(31.25, 7))
    assert admit(broker, owner="key=sk-other") == Learned(None, SPEED)
    assert admit(broker, queue=QUEUE.replace(LENGTH, "long")) == Learned(None, SPEED)
    assert admit(broker, queue=QUEUE.replace(MODEL, "other")) == NOTHING


def test_of_two_that_learn_at_once_one_is_lost_and_nothing_else(broker: Broker) -> None:
    first = broker.lessons(MODEL, [KEY])
    assert broker.learn(first, replace(first, outputs={KEY: Output(10.0, 1)})) == 1
    assert broker.learn(first, replace(first, outputs={KEY: Output(99.0, 1)}, speed=SPEED)) == 1
    assert admit(broker) == Learned(Output(10.0, 1), SPEED)


def test_many_keys_are_learned_of_at_once(broker: Broker) -> None:
    kinds = [LengthOf(f"key=sk-{number}", LENGTH) for number in range(250)]
    before = broker.lessons(MODEL, kinds)
    outputs = {kind: Output(float(number), 1) for number, kind in enumerate(kinds, start=1)}
    assert broker.learn(before, replace(before, outputs=outputs)) == 250
    assert broker.lessons(MODEL, kinds).outputs == outputs


def test_what_nobody_learns_any_more_is_forgotten(broker: Broker) -> None:
    teach(broker, Output(10.0, 1))
    names = list(broker.client.scan_iter(match=f"{broker.prefix}*"))
    assert len(names) == 2
    assert all(0 < broker.client.ttl(name) <= 7 * 24 * 3600 for name in names)


@pytest.mark.parametrize("state", [b"", b"1", b"a b", b"1 2 3 4", b"1 2 3 4 5 6 7"])
def test_a_state_that_another_version_wrote_is_unknown_and_written_anew(broker: Broker, state: bytes) -> None:
    teach(broker, Output(10.0, 1))
    for name in broker.client.scan_iter(match=f"{broker.prefix}*"):
        broker.client.set(name, state)
    assert admit(broker) == NOTHING
    assert teach(broker, Output(12.0, 2)).outputs == {KEY: Output(12.0, 2)}
