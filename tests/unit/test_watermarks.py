"""How full a queue is."""

import pytest

from inference import watermarks
from inference.watermarks import Watermark


@pytest.mark.parametrize(
    ("jobs", "mark"),
    [(49, Watermark.NONE), (50, Watermark.LOW), (70, Watermark.WARNING), (90, Watermark.EMERGENCY)],
)
def test_a_mark_is_reached_at_its_share(jobs: int, mark: Watermark) -> None:
    assert watermarks.reached(watermarks.share((jobs, 100))) is mark


def test_the_fullest_of_its_limits_says_how_full_it_is() -> None:
    assert watermarks.share((1, 10), (8, 10), (1000, None)) == 0.8
    assert watermarks.share((1000, None)) == 0


def test_what_takes_nothing_is_full() -> None:
    assert watermarks.share((0, 0)) == 1
