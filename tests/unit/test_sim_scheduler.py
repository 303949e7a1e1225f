"""The simulated engine batches, fills its KV cache and preempts as vLLM does, in exact numbers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.sim.config import BLOCK_TOKENS, SimConfig
from workers.sim.scheduler import Scheduler, Sequence


def make_scheduler(**overrides: Any) -> Scheduler:
    """A device that decodes 10 tokens/s a sequence and prefills 100 tokens/s."""
    values: dict[str, Any] = {
        "model": "m",
        "max_model_len": 64,
        "max_num_seqs": 4,
        "max_num_batched_tokens": 64,
        "kv_tokens": 1024,
        "decode_tps": 10.0,
        "prefill_tps": 100.0,
    }
    return Scheduler(SimConfig(**values | overrides))


def add(scheduler: Scheduler, *, prompt: int = 1, output: int = 1, priority: int = 0) -> Sequence:
    sequence = Sequence(prompt, output, priority)
    scheduler.add(sequence)
    return sequence


def step(scheduler: Scheduler) -> tuple[float, list[Sequence]]:
    plan = scheduler.plan()
    assert plan
    return plan.seconds, scheduler.commit(plan)


def run(scheduler: Scheduler) -> float:
    """Step until nothing is left; returns the seconds it took."""
    seconds = 0.0
    while plan := scheduler.plan():
        seconds += plan.seconds
        scheduler.commit(plan)
    return seconds


def test_an_idle_engine_has_nothing_to_do() -> None:
    assert make_scheduler().plan() is None


def test_a_lone_sequence_takes_its_prefill_and_one_step_a_token() -> None:
    scheduler = make_scheduler()
    sequence = add(scheduler, prompt=51, output=4)

    assert run(scheduler) == pytest.approx(4 / 10 + 50 / 100)
    assert sequence.is_done


def test_a_full_batch_is_as_fast_as_a_single_sequence() -> None:
    scheduler = make_scheduler()
    for _ in range(4):
        add(scheduler, output=8)
    assert run(scheduler) == pytest.approx(8 / 10)


def test_no_more_than_max_num_seqs_run_and_the_next_takes_the_place_at_once() -> None:
    scheduler = make_scheduler(max_num_seqs=2)
    first, second, third = add(scheduler, output=1), add(scheduler, output=3), add(scheduler, output=1)

    assert step(scheduler)[1] == [first, second]
    assert (len(scheduler.running), scheduler.waiting) == (1, 1)
    assert step(scheduler)[1] == [second, third]


def test_a_long_prompt_is_computed_in_chunks_while_others_go_on() -> None:
    scheduler = make_scheduler(max_num_batched_tokens=10)
    decoding = add(scheduler, output=5)
    step(scheduler)
    long = add(scheduler, prompt=25)

    gained = [step(scheduler)[1] for _ in range(3)]

    assert gained == [[decoding], [decoding], [decoding, long]]


def test_a_lower_priority_number_is_admitted_first() -> None:
    scheduler = make_scheduler(max_num_seqs=1)
    bulk, realtime = add(scheduler, priority=2), add(scheduler, priority=0)

    assert [step(scheduler)[1], step(scheduler)[1]] == [[realtime], [bulk]]


def test_when_the_cache_is_full_the_lowest_priority_that_came_last_is_preempted_and_still_finishes() -> None:
    scheduler = make_scheduler(kv_tokens=4 * BLOCK_TOKENS)
    realtime = add(scheduler, prompt=2 * BLOCK_TOKENS, output=20, priority=0)
    bulk = add(scheduler, prompt=2 * BLOCK_TOKENS - 4, output=20, priority=2)

    while not realtime.is_done:
        step(scheduler)

    assert scheduler.preemptions == 1
    assert bulk in scheduler.running or scheduler.waiting
    run(scheduler)
    assert bulk.produced == 20
    assert scheduler.free_blocks == scheduler.total_blocks


def test_a_sequence_removed_while_its_step_runs_gains_nothing() -> None:
    scheduler = make_scheduler()
    gone, stays = add(scheduler), add(scheduler)
    plan = scheduler.plan()
    assert plan

    scheduler.remove(gone)

    assert scheduler.commit(plan) == [stays]
    assert scheduler.free_blocks == scheduler.total_blocks


def test_a_cache_smaller_than_the_longest_sequence_is_refused() -> None:
    with pytest.raises(ValueError, match="max_model_len"):
        make_scheduler(kv_tokens=63)
    with pytest.raises(ValueError, match=r"kv_tokens 1000 .*992 in whole blocks of 16"):
        make_scheduler(max_model_len=1000, kv_tokens=1000)


@given(
    st.lists(
        st.tuples(st.integers(1, 40), st.integers(1, 24), st.integers(0, 2), st.booleans()),
        min_size=1,
        max_size=12,
    )
)
def test_whatever_comes_all_finish_within_bounds_and_no_block_is_lost(
    work: list[tuple[int, int, int, bool]],
) -> None:
    scheduler = make_scheduler(kv_tokens=80, max_num_batched_tokens=16)
    sequences = [
        (add(scheduler, prompt=prompt, output=output, priority=tier), leaves)
        for prompt, output, tier, leaves in work
    ]
    steps = 0

    while plan := scheduler.plan():
        steps += 1
        assert steps < 10_000
        assert len(scheduler.running) <= 4
        assert 0 <= scheduler.free_blocks <= scheduler.total_blocks
        scheduler.commit(plan)
        for sequence, leaves in sequences:
            if leaves and sequence.produced == 1 and not sequence.is_done:
                scheduler.remove(sequence)
                sequence.output_tokens = 1

    assert all(sequence.is_done for sequence, _ in sequences)
    assert scheduler.free_blocks == scheduler.total_blocks
