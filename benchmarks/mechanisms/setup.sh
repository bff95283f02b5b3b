#!/usr/bin/env sh
# Make .venv-peers for other libraries, separate since they pin versions that we do not. None of our code imports them.
set -eu
cd "$(dirname "$0")/../.."
[ -x .venv-peers/bin/python ] || .venv/bin/python -m venv --without-pip .venv-peers
.venv/bin/uv pip sync --quiet --require-hashes --python .venv-peers/bin/python benchmarks/mechanisms/peers.lock
