#!/usr/bin/env sh
# Run the checks and the tests at the same time. Output of the tests is shown as they run, that of the checks when both
# have ended. This fails if either fails.
set -u
cd "$(dirname "$0")/.."
said=$(mktemp)
checks=
trap 'rm -f "$said"; [ -z "$checks" ] || kill "$checks" 2>/dev/null' EXIT
trap 'exit 130' INT TERM
"${MAKE:-make}" --no-print-directory check >"$said" 2>&1 &
checks=$!

# Tests write to memory if there is room. A kill leaves the same files behind as on disk, and tests do not wait for a
# busy disk.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ] && [ "$(df -Pk /dev/shm | awk 'NR == 2 { print $4 }')" -gt 4000000 ]; then
  export TMPDIR=/dev/shm
fi
# The first time, pytest compiles every test with its own asserts: once here, while mypy has the other core, and not once
# in each of the six workers.
if [ -z "$(find "${PYTHONPYCACHEPREFIX:-.venv/pycache}" -name 'test_*-pytest-*.pyc' -print -quit 2>/dev/null)" ]; then
  .venv/bin/pytest --collect-only -q -m "not full" >/dev/null 2>&1
fi
# Six workers on two cores: many tests wait.
.venv/bin/pytest -m "not full" -n 6 --dist loadscope --no-loadscope-reorder "$@"
tests=$?

wait "$checks"
checked=$? checks=
echo
cat "$said"
[ "$checked" -eq 0 ] || echo "The checks failed (exit code $checked): see above." >&2
[ "$tests" -eq 0 ] || echo "The tests failed (exit code $tests): see above the checks." >&2
[ "$checked" -eq 0 ] && [ "$tests" -eq 0 ]
