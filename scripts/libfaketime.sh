#!/usr/bin/env sh
# Find a libfaketime for the tests with wrong clocks, or install Debian's where that is allowed.
# This never fails: without libfaketime those tests do not run, and this script says so.
set -u
here() { ls /usr/lib/*/faketime/libfaketimeMT.so.1 /usr/lib*/faketime/libfaketimeMT.so.1 2>/dev/null | grep -q .; }
missing() {
  echo "no libfaketime: $1, so the tests with wrong clocks will NOT run. Install Debian's package libfaketime." >&2
  exit 0
}
here && exit 0
command -v apt-get >/dev/null 2>&1 || missing "it is not installed and there is no apt-get to install it"
[ "$(id -u)" = 0 ] || missing "it is not installed and only root may install it"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
quiet() { DEBIAN_FRONTEND=noninteractive timeout 300 apt-get -qq -o DPkg::Lock::Timeout=120 "$@" >>"$log" 2>&1 </dev/null; }
install() { quiet install -y --no-install-recommends libfaketime; }
echo "installing libfaketime for the tests with wrong clocks" >&2
# a fresh machine has no package list, and an old list names files that are gone: an update mends both
install || { quiet update && install; } || { tail -n 5 "$log" >&2; missing "apt-get could not install it"; }
here || missing "apt-get installed it in an unexpected place"
