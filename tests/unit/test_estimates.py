"""What is learned from finished calls: outputs follow their quantile, rates follow the engine, within bounds."""

import bisect
import math
from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference import estimates
from inference.estimates import Call, Demand, Estimate, Learned, Output, Rates, Speed
from tests import factories

CONFIGURED = Rates(prefill=4000, decode=25)
UNKNOWN, UNMEASURED = Output(256.0), Speed()
SPREADS = st.sampled_from((0.3, 0.7, 1.2))


def learn(samples: Iterable[int], start: Output = UNKNOWN) -> Output:
    for tokens in samples:
        start = start.after(tokens, is_cut=False)
    return start


def lognormal(random: Random, *, median: float, spread: float, count: int) -> list[int]:
    return [max(1, round(random.lognormvariate(math.log(median), spread))) for _ in range(count)]


def share_below(samples: list[int], tokens: float) -> float:
    return bisect.bisect_right(sorted(samples), tokens) / len(samples)


def measure(calls: Iterable[Call], start: Speed = UNMEASURED) -> Speed:
    for call in calls:
        start = start.after(call, CONFIGURED)
    return start


def calls_of(
    rates: Rates, random: Random, *, streamed: bool, count: int = 300, noise: float = 0.15
) -> Iterable[Call]:
    for _ in range(count):
        prompt, output = random.randint(10, 4000), random.randint(2, 600)
        first = rates.seconds(prompt, 1) * random.lognormvariate(0, noise)
        rest = rates.seconds(0, output - 1) * random.lognormvariate(0, noise)
        yield Call(prompt, output, first + rest, first if streamed else None)


# Outputs


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.floats(40, 3000), SPREADS)
def test_an_expectation_settles_near_the_quantile_of_what_comes(seed: int, median: float, spread: float) -> None:
    random = Random(seed)
    samples = lognormal(random, median=median, spread=spread, count=600)
    known = learn(samples)
    after = []
    for tokens in lognormal(random, median=median, spread=spread, count=400):
        known = known.after(tokens, is_cut=False)
        after.append(known.tokens)
    middle = math.exp(sum(map(math.log, after)) / len(after))  # it goes on moving: its mean says where it stays
    assert estimates.QUANTILE - 0.15 < share_below(samples, middle) < estimates.QUANTILE + 0.15


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.floats(0.05, 20), SPREADS)
def test_an_expectation_follows_a_change_of_what_comes(seed: int, factor: float, spread: float) -> None:
    random = Random(seed)
    known = learn(lognormal(random, median=200, spread=spread, count=300))
    samples = lognormal(random, median=200 * factor, spread=spread, count=500)
    ends = [(known := known.after(tokens, is_cut=False)).tokens for tokens in samples][-200:]
    middle = math.exp(sum(map(math.log, ends)) / len(ends))
    assert estimates.QUANTILE - 0.15 < share_below(samples, middle) < estimates.QUANTILE + 0.15


@given(st.lists(st.tuples(st.integers(0, 10**6), st.booleans()), max_size=50))
def test_an_expectation_stays_within_what_was_seen_and_moves_by_bounded_steps(
    answers: list[tuple[int, bool]],
) -> None:
    known, most = Output(256.0), math.exp(estimates.FIRST_STEP * estimates.QUANTILE)
    for tokens, is_cut in answers:
        after = known.after(tokens, is_cut=is_cut)
        seen = max(1, tokens)
        assert min(known.tokens, seen) <= after.tokens <= max(known.tokens, seen)
        assert 1 / most <= after.tokens / known.tokens <= most
        known = after


@pytest.mark.parametrize(("tokens", "jobs"), [(8, 15), (30, 10), (2000, 3)])
def test_outputs_that_are_all_alike_are_known_after_a_few(tokens: int, jobs: int) -> None:
    assert learn([tokens] * jobs).tokens == pytest.approx(tokens)


def test_an_answer_that_was_cut_short_says_only_that_it_is_at_least_so_long() -> None:
    known = Output(256.0)
    assert known.after(16, is_cut=True) == known
    assert known.after(1000, is_cut=True).tokens == 1000


# Rates


@settings(max_examples=20)
@given(
    st.integers(0, 10**6),
    st.sampled_from((Rates(500, 10), Rates(4000, 25), Rates(20_000, 100), Rates(300_000, 2000))),
    st.booleans(),
)
def test_the_measured_rates_are_the_engines(seed: int, rates: Rates, streamed: bool) -> None:
    measured = measure(calls_of(rates, Random(seed), streamed=streamed)).rates(CONFIGURED)
    assert measured.seconds(2000, 300) == pytest.approx(rates.seconds(2000, 300), rel=0.15)
    assert measured.decode == pytest.approx(rates.decode, rel=0.2)
    # Only a stream tells prefill from decode: of whole calls it is what their sizes give away.
    assert measured.prefill == pytest.approx(rates.prefill, rel=0.2 if streamed else 0.7)


@settings(max_examples=10)
@given(st.integers(0, 10**6), st.sampled_from((0.1, 0.5, 3.0, 10.0)))
def test_the_measured_rates_follow_an_engine_that_changes(seed: int, factor: float) -> None:
    random = Random(seed)
    known = measure(calls_of(CONFIGURED, random, streamed=True))
    now = Rates(CONFIGURED.prefill * factor, CONFIGURED.decode * factor)
    measured = measure(calls_of(now, random, streamed=True, count=1000), known).rates(CONFIGURED)
    assert measured.seconds(2000, 300) == pytest.approx(now.seconds(2000, 300), rel=0.2)


@given(st.floats(0.01, 100), st.integers(16, 5000), st.integers(1, 500))
def test_calls_that_are_all_of_one_size_keep_the_configured_ratio(slower: float, prompt: int, output: int) -> None:
    seconds = CONFIGURED.seconds(prompt, output) * slower
    measured = measure([Call(prompt, output, seconds)] * 20).rates(CONFIGURED)
    assert measured.seconds(prompt, output) == pytest.approx(max(seconds, estimates.LEAST_SECONDS), rel=0.02)
    if seconds > 1e-3:
        assert measured.prefill / measured.decode == pytest.approx(160, rel=0.05)


@given(
    st.lists(
        st.tuples(st.integers(0, 10**7), st.integers(0, 10**7), st.floats(0, 1e6), st.none() | st.floats(0, 1e6)),
        max_size=40,
    )
)
def test_the_measured_rates_are_within_bounds_whatever_is_said(
    calls: list[tuple[int, int, float, float | None]],
) -> None:
    rates = measure(Call(*call) for call in calls).rates(CONFIGURED)
    assert estimates.PREFILL_BOUNDS[0] <= rates.prefill <= estimates.PREFILL_BOUNDS[1]
    assert estimates.DECODE_BOUNDS[0] <= rates.decode <= estimates.DECODE_BOUNDS[1]


def test_few_calls_change_nothing() -> None:
    few = measure([Call(100, 10, 0.1)] * (estimates.MIN_CALLS - 1))
    assert few.rates(CONFIGURED) == CONFIGURED
    assert few.after(Call(100, 10, 0.1), CONFIGURED).rates(CONFIGURED) != CONFIGURED


def test_one_call_that_hung_counts_as_a_slow_one() -> None:
    known = measure([Call(100, 50, CONFIGURED.seconds(100, 50))] * 100)
    hung = known.after(Call(100, 50, 3600), CONFIGURED).rates(CONFIGURED)
    assert hung.seconds(100, 50) < 1.1 * CONFIGURED.seconds(100, 50)


# Estimates


@given(
    st.none() | st.floats(1, 1e6),
    st.integers(1, 8191),
    st.none() | st.integers(1, 10**6),
)
def test_an_expectation_never_exceeds_what_was_asked_for_or_what_fits(
    tokens: float | None, prompt: int, most: int | None
) -> None:
    model = factories.make_model_limits(max_model_len=8192, default_output_tokens=256)
    learned = Learned(None if tokens is None else Output(tokens))
    expected = learned.expected_tokens(model, Demand(prompt, most))
    assert 1 <= expected <= min(8192 - prompt, most or 8192)
    assert expected == min(math.ceil(256 if tokens is None else tokens), 8192 - prompt, most or 8192)


def test_an_estimate_goes_by_the_configured_rates_until_others_are_measured() -> None:
    model = factories.make_model_limits(prefill_tokens_per_second=1000.0, decode_tokens_per_second=10.0)
    demand = Demand(500, 20)
    assert estimates.NOTHING.seconds(model, demand) == pytest.approx(0.5 + 2)
    faster = Speed()
    for _ in range(20):
        faster = faster.after(Call(500, 20, 0.25), estimates.configured(model))
    assert Learned(speed=faster).seconds(model, demand) == pytest.approx(0.25, rel=0.02)


def test_an_owner_is_a_keys_public_part_or_the_tenant() -> None:
    assert estimates.owner(api_key_id="sk-abcd1234.hashed", tenant="ann") == "key=sk-abcd1234"
    assert estimates.owner(api_key_id=None, tenant="ann") == "tenant=ann"


@given(st.integers(1, 5000), st.integers(1, 2000), st.integers(0, 2000), st.floats(0.01, 100))
def test_what_was_used_is_the_estimate_if_it_was_right_whatever_the_rates_became(
    prompt: int, expected: int, brought: int, faster: float
) -> None:
    estimate = Estimate(prompt, expected, CONFIGURED.seconds(prompt, expected))
    now = Rates(CONFIGURED.prefill * faster, CONFIGURED.decode * faster)
    used = estimates.used_seconds(estimate, now, prompt_tokens=prompt, output_tokens=brought)
    assert used == pytest.approx(CONFIGURED.seconds(prompt, brought))
