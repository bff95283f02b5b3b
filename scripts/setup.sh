#!/usr/bin/env sh
# Make .venv from requirements.lock. Needs only python >= 3.11 with pip.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "hubbub needs Python 3.11 or newer; $python is $("$python" --version 2>&1). Set PYTHON=/path/to/python3.11." >&2
  exit 1
}
if [ ! -x .venv/bin/python ]; then
  # Debian's python3 may come without ensurepip; its pip can still install into the new environment.
  "$python" -m venv .venv 2>/dev/null || { rm -rf .venv; "$python" -m venv --without-pip .venv; }
fi
[ -x .venv/bin/uv ] || "$python" -m pip --python .venv/bin/python install --quiet --disable-pip-version-check "uv==$(cat scripts/uv-version)"
install() {
  .venv/bin/uv pip sync --quiet --require-hashes --python .venv/bin/python "$@" requirements.lock
}
# uv brings its own list of certificate authorities. If the network has a proxy with another one, the system knows it.
install || {
  echo "trying again with the certificate authorities that this system trusts ..." >&2
  install --system-certs
}
.venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable .
