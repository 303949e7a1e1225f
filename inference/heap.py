"""What the garbage collector need not walk over."""

import gc


def spare_what_is_loaded() -> None:
    """Leave what is in memory now out of all collections; a process that serves calls it once it is loaded.

    Django and all that stands on it are a hundred thousand objects and more, and they stay. A full collection
    walks over them with every thread stopped, for 70 ms and more: about once a second in a busy worker.
    """
    gc.collect()
    gc.freeze()
