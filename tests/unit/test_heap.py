"""A full collection leaves the program itself alone."""

import gc

from inference import heap


def test_what_is_loaded_is_in_no_collection_any_more_and_what_comes_later_is() -> None:
    loaded: list[object] = []
    try:
        heap.spare_what_is_loaded()
        later: list[object] = []
        assert not any(each is loaded for each in gc.get_objects())
        assert any(each is later for each in gc.get_objects())
    finally:
        gc.unfreeze()
