"""`python leash.py PARENT COMMAND…`: become COMMAND, and be killed with PARENT, however that ends.

A script without imports of ours, so that it costs milliseconds. Linux only; elsewhere it just becomes COMMAND.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # from <sys/prctl.h>


def main() -> None:
    """Ask the kernel for a SIGKILL at the parent's death, then exec."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the request took effect
            sys.exit(1)
    os.execvp(command[0], command)  # noqa: S606 - no shell is the point


if __name__ == "__main__":
    main()
