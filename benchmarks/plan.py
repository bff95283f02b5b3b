"""CPU time of a cold plan of twenty metrics, each with the best mechanism at equal certificate, beside its limit.

Run as `python -m benchmarks.plan`. A ratio below 1 meets the limit. Each plan runs in a process that has computed
nothing before; loading the libraries counts.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.table import Row, at_most, show

LIMIT = 60
"""CPU seconds."""
METRICS = 20
_TIMED = """
import sys, time
from hubbub.accounting import codebook_plan
from hubbub_cli.compile_codebook import read_codebook
made = codebook_plan.plan(read_codebook(sys.argv[1]), 50_000, compare=True)
assert len(made.metrics) == 20 and all(one.released for one in made.metrics)
print(time.process_time())
"""


def codebook(epsilon: str) -> str:
    """Twenty different metrics: five yes-or-no, ten lists of 3 to 4,096 values, five means."""
    head = """
[collection]
name = "twenty"
period = "1d"
device_epsilon = 200
release = { epsilon = 1, delta = 1e-8 }
devices = 50000
local_epsilon_cap = 6.0
"""
    tables = [f'type = "boolean"\nshare = 0.{9 - number}' for number in range(5)]
    sizes = (3, 5, 10, 20, 50, 100, 256, 512, 1024, 4096)
    tables += [
        f'type = "category"\nvalues = [{", ".join(f"{chr(34)}v{at}{chr(34)}" for at in range(n))}]' for n in sizes
    ]
    tables += [f'type = "mean"\nbounds = [0, {10 + number}]\nshare = 0.{9 - number}' for number in range(5)]
    return head + "".join(f"\n[metrics.m{at}]\n{table}\nepsilon = {epsilon}\n" for at, table in enumerate(tables))


def rows(*, long: bool = False) -> list[Row]:
    """A plan with epsilons by hand, and one that works them out."""
    found = []
    for what, epsilon in (("by hand", "2.0"), ("left open", '"auto"')):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "metrics.toml"
            file.write_text(codebook(epsilon))
            taken = [
                float(
                    subprocess.run(
                        [sys.executable, "-c", _TIMED, str(file)], check=True, capture_output=True, text=True
                    ).stdout
                )
                for _ in range(3 if long else 1)
            ]
        name = f"plan of {METRICS} metrics, cold, epsilons {what}"
        found.append(Row(name, max(taken), "s of CPU", "limit", LIMIT, at_most(1)))
    return found


def main() -> None:
    print(show(rows(long=True)))


if __name__ == "__main__":
    main()
