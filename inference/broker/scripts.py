"""The Lua scripts: every verb is one call of one of them, so it is atomic.

A script is sent by its hash, and in full where the server does not know it
(first use, SCRIPT FLUSH, restart, failover).
"""

import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import redis
from redis.exceptions import NoScriptError

from inference.broker.pipe import Pipe

FOLDER: Final = Path(__file__).parent / "lua"

FLAGS: Final = {"renew": "#!lua flags=allow-oom\n"}
"""A renewal takes no memory. Refused while the memory is full, it would end all that runs."""

_BASE: Final = ("common", "clock")
_ENTRY: Final = (*_BASE, "entry")
_ORDER: Final = (*_ENTRY, "order")
_WAITING: Final = (*_ORDER, "entering", "payers", "oldest", "waiting")

PARTS: Final = {
    "renew": _ENTRY,
    "admit": (*_ENTRY, "windows", "payers", "spending", "reserved", "behind", "oldest", "drained", "turns"),
    **dict.fromkeys(("feed", "spill", "unspill", "waits"), (*_ENTRY, "payers", "reserved")),
    "withdraw": (*_ENTRY, "windows", "payers", "reserved"),
    "turn": (*_ENTRY, "windows", "oldest", "drained", "turns"),
    "spending_begin": (*_BASE, "payers"),
    "spending_end": (*_BASE, "payers"),
    "spending_now": (*_BASE, "payers", "spending"),
    "spending_sweep": (*_BASE, "payers"),
    **dict.fromkeys(("append", "notify"), (*_ENTRY, "audience")),
    "explain": (*_ORDER, "ahead"),
    "claim": (*_ORDER, "deferred", "windows", "objectives", "noting", "moving", "asked", "levelling", "guards"),
    "ack": (*_ORDER, "windows", "payers", "leases", "correcting", "audience", "objectives"),
    "began": (*_ENTRY, "objectives"),
    "stats": (*_ENTRY, "windows"),
    **dict.fromkeys(("move", "publish_task", "restore", "set_weight"), _WAITING),
    **dict.fromkeys(("publish", "due"), (*_WAITING, "reserved")),
    "discard": (*_WAITING, "windows", "reserved", "leases"),
    "cancel": (*_WAITING, "windows", "reserved", "audience", "objectives"),
    "release": (*_WAITING, "leases", "correcting", "audience"),
}
"""What a script stands on beside the base, and no more: each function is made anew at every call."""

_NEST: Final = "\nreturn (function()\n"
"""Each part is a function in the one before. A new function finds a variable of the function that it is made in by
walking along all of them that are used so far, one of a function further out by its place: counted in instructions
(the clock of a busy machine hides it), that is about 6 % of a claim.
"""

Argument = str | bytes | int | float


@dataclass(frozen=True, slots=True)
class Script:
    """One verb's Lua text, with the functions that all share before it."""

    text: str
    sha: str


@functools.cache
def get(name: str) -> Script:
    """Read `lua/<name>.lua`."""
    names = (*PARTS.get(name, _BASE), name)
    parts = [(FOLDER / f"{part}.lua").read_text(encoding="utf-8") for part in names]
    text = FLAGS.get(name, "") + _NEST.join(parts) + "\nend)()" * (len(parts) - 1)
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def call(client: redis.Redis, name: str, *args: Argument) -> Any:
    """Run one script. No keys are declared: all share one hash tag, and Cluster is not supported."""
    script = get(name)
    try:
        return client.evalsha(script.sha, 0, *args)
    except NoScriptError:
        return client.eval(script.text, 0, *args)


async def call_async(pipe: Pipe, name: str, *args: Argument) -> Any:
    """Run one script from an event loop."""
    script = get(name)
    try:
        return await pipe.call("EVALSHA", script.sha, 0, *args)
    except NoScriptError:
        return await pipe.call("EVAL", script.text, 0, *args)
