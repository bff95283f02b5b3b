#!/usr/bin/env sh
# Find a Chromium for the browser tests, or install Debian's where that is allowed.
# This never fails: without a browser those tests do not run, and this script says so.
set -u
missing() {
  echo "no browser: $1, so the browser tests will NOT run. Install chromium, or set HUBBUB_CHROMIUM to one." >&2
  exit 0
}
if [ -n "${HUBBUB_CHROMIUM:-}" ]; then
  [ -x "$HUBBUB_CHROMIUM" ] || missing "HUBBUB_CHROMIUM is $HUBBUB_CHROMIUM, which can't be run"
  exit 0
fi
for name in chromium chromium-browser google-chrome google-chrome-stable; do
  command -v "$name" >/dev/null 2>&1 && exit 0
done
command -v apt-get >/dev/null 2>&1 || missing "there is none on PATH and no apt-get to install one"
[ "$(id -u)" = 0 ] || missing "there is none on PATH and only root may install one"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
quiet() { DEBIAN_FRONTEND=noninteractive timeout 300 apt-get -qq -o DPkg::Lock::Timeout=120 "$@" >>"$log" 2>&1 </dev/null; }
install() { quiet install -y --no-install-recommends chromium; }
echo "installing chromium for the browser tests" >&2
# a fresh machine has no package list, and an old list names files that are gone: an update mends both
install || { quiet update && install; } || { tail -n 5 "$log" >&2; missing "apt-get could not install chromium"; }
command -v chromium >/dev/null 2>&1 || missing "apt-get installed a chromium that is not on PATH"
