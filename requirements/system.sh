#!/bin/sh
# Install the programs that tests start and pip cannot bring: by apt, where this user may. Tells what is missing else.
set -eu

have() { command -v "$1" >/dev/null 2>&1; }

missing=""
have chromium || have chromium-browser || have google-chrome || missing="$missing chromium"
have initdb || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"
[ -n "$(find /usr/lib -name 'libfaketimeMT.so.1' 2>/dev/null)" ] || missing="$missing libfaketime"
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && have apt-get; then
	echo "setup | installing$missing with apt-get"
	apt-get update --quiet=2
	# shellcheck disable=SC2086 # a list of names
	DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends $missing >/dev/null
else
	echo "setup | MISSING:$missing; tests that need it will fail (Debian: sudo apt-get install$missing)"
fi
