"""Looks up again what is in use, shortly before what is known of it is too old: then no request waits for that.

It lengthens no life: what is not looked up in time is looked up by the next request, as if this were not here.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Final

logger = logging.getLogger(__name__)

LEAD_SECONDS: Final = 0.3
"""So long before."""

_Place = tuple[asyncio.AbstractEventLoop, Hashable]
_planned: Final[set[_Place]] = set()
_running: Final[set["asyncio.Task[None]"]] = set()
"""The event loop itself holds tasks only weakly."""


def plan(name: Hashable, look_up: Callable[[], Awaitable[object]], *, seconds_left: float) -> None:
    """Have `look_up` called before what is known of `name` ends in `seconds_left`: once for all that ask so."""
    loop = asyncio.get_running_loop()
    if (loop, name) not in _planned:
        _planned.add((loop, name))
        loop.call_later(max(0.0, seconds_left - LEAD_SECONDS), _begin, (loop, name), look_up)


def _begin(place: _Place, look_up: Callable[[], Awaitable[object]]) -> None:
    _planned.discard(place)
    task = asyncio.create_task(_done(look_up))
    _running.add(task)
    task.add_done_callback(_running.discard)


async def _done(look_up: Callable[[], Awaitable[object]]) -> None:
    try:
        await look_up()
    except Exception as error:  # whoever asks next meets it
        logger.debug("not looked up ahead: %s", type(error).__name__)
