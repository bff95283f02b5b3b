#!/usr/bin/env sh
# Make .venv-peers, where other people's libraries live: they pin what we do not, and nothing of ours imports them.
set -eu
cd "$(dirname "$0")/../.."
[ -x .venv-peers/bin/python ] || .venv/bin/python -m venv --without-pip .venv-peers
.venv/bin/uv pip sync --quiet --require-hashes --python .venv-peers/bin/python benchmarks/mechanisms/peers.lock
