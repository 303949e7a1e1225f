"""The simulated engine's histogram of its own queue."""

from workers.sim.waits import Waits


def test_each_bucket_holds_all_that_waited_at_most_so_long() -> None:
    waits = Waits()
    for seconds in (0.0, 0.3, 0.31, 5.0, 500.0):
        waits.add(seconds)
    buckets = dict(waits.buckets())

    assert (buckets["0.3"], buckets["0.5"], buckets["2.5"], buckets["5.0"], buckets["120.0"]) == (2, 3, 3, 4, 4)
    assert buckets["+Inf"] == waits.count == 5
    assert waits.seconds == 505.61
