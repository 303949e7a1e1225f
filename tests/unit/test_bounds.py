"""What a worker takes from the limit tables for its claims."""

from dataclasses import replace
from typing import Any

from inference.guards import Cap
from inference.limits import Limits, QueueLimits, Rival, WorkerLimits
from tests import factories
from workers.bounds import Bounds

MODEL = factories.MODEL
LIMITS = factories.make_limits()
STANDARD, BULK = f"{MODEL}.standard.short", f"{MODEL}.bulk.short"
LONG = f"{MODEL}.standard.long"


def bounds(limits: Limits, *served: str) -> Bounds:
    return Bounds.of(limits, worker="worker-1@test", model=MODEL, served=served or limits.queues())


def with_tier(name: str, **overrides: Any) -> Limits:
    return replace(LIMITS, tiers={**LIMITS.tiers, name: replace(LIMITS.tiers[name], **overrides)})


def with_queue(queue: str, **values: Any) -> Limits:
    return replace(LIMITS, queue_limits={queue: QueueLimits(**values)})


def test_without_limits_of_an_admin_nothing_is_capped_or_paused() -> None:
    found = bounds(LIMITS)
    assert (found.caps, found.paused, found.reserve_tiers) == ((), frozenset(), frozenset())
    assert not found.is_halted


def test_the_reserve_is_kept_only_by_a_worker_that_serves_a_tier_that_uses_it() -> None:
    limits = with_tier("standard", uses_reserve=True)
    assert bounds(limits).reserve_tiers == {"standard"}
    assert bounds(limits, BULK).reserve_tiers == frozenset()


def test_share_and_margin_are_the_models_as_they_are_now() -> None:
    model = factories.make_model_limits(reserve_share=0.2, kv_margin_tokens=99)
    found = bounds(replace(LIMITS, models={MODEL: model}))
    assert (found.reserve_share, found.margin_tokens) == (0.2, 99)


def test_a_model_that_is_gone_leaves_the_margin_to_the_worker() -> None:
    assert Bounds.of(Limits(), worker="worker-1@test", model=MODEL, served=()) == Bounds()


def test_a_paused_queue_is_named_if_it_is_served() -> None:
    limits = with_queue(BULK, is_paused=True)
    assert bounds(limits).paused == {BULK}
    assert bounds(limits, STANDARD).paused == frozenset()


def test_a_halted_worker_is_halted_and_no_other() -> None:
    halted = {"worker-1@test": WorkerLimits(is_paused=True)}
    assert bounds(replace(LIMITS, worker_limits=halted)).is_halted
    assert not bounds(replace(LIMITS, worker_limits={"worker-2@test": WorkerLimits(is_paused=True)})).is_halted


def test_a_tiers_cap_counts_all_its_queues_of_the_model_though_one_is_served() -> None:
    found = bounds(with_tier("standard", max_in_flight=5), STANDARD)
    assert found.caps == (Cap((STANDARD, LONG), 5),)


def test_a_cap_that_binds_nothing_served_is_left_out() -> None:
    assert bounds(with_tier("standard", max_in_flight=5), BULK).caps == ()
    assert bounds(with_queue(LONG, max_in_flight=5), BULK).caps == ()


def test_model_class_and_queue_have_caps_of_their_own_and_all_hold() -> None:
    limits = replace(
        with_queue(BULK, max_in_flight=0),
        models={MODEL: factories.make_model_limits(max_in_flight=7)},
        lengths={**LIMITS.lengths, "short": replace(LIMITS.lengths["short"], max_in_flight=3)},
    )
    all_queues = tuple(LIMITS.queues())
    assert bounds(limits, BULK).caps == (Cap(all_queues, 7), Cap((STANDARD, BULK), 3), Cap((BULK,), 0))


def test_queues_that_a_larger_worker_serves_too_are_named_and_those_of_one_whose_size_is_not_known() -> None:
    others = (Rival(MODEL, ("*.bulk.*",), 500), Rival(MODEL, ("*.short",), 900), Rival("another", ("*",), 10**6))
    found = bounds(replace(LIMITS, rivals=others), STANDARD, BULK, LONG)
    assert found.larger(400) == {STANDARD, BULK}
    assert found.larger(900) == frozenset()
    loading = (*others, Rival(MODEL, ("*.long",), None))
    assert bounds(replace(LIMITS, rivals=loading), STANDARD, BULK, LONG).larger(900) == {LONG}
