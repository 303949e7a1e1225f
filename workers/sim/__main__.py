"""`python -m workers.sim`: an engine without a device."""

import sys

import uvloop

from workers.sim import config, server

if __name__ == "__main__":
    address, options = config.parse(sys.argv[1:])
    uvloop.run(server.serve(address, options))
