"""CPU time of simulated devices in one process, against the limits of two and five seconds.

First the engine alone: devices drawn from rows, their reports or the law of all reports, estimates and intervals. Then
the whole command in its own process, with all that it loads, reads and computes. To compare machines, use the ratios to
one pass of the generator over as many devices, which is the cost of drawing one number for each.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.table import Row, at_most, show
from hubbub.codebook import Codebook
from hubbub.mechanisms import registered
from hubbub.simulation import Column, Crowd, InsecureBulkRandomness, run

LIMITS = {("krr", 100, 10_000_000): 2.0, ("linear-hash", 65_536, 1_000_000): 5.0}
"""Limits in CPU seconds, by mechanism, number of values and number of devices."""
OTHERS = [
    ("rr", 2, 10_000_000),
    ("oue", 1_024, 10_000_000),
    ("subset", 128, 10_000_000),
    ("hadamard", 65_536, 1_000_000),
    ("olh", 1_024, 1_000_000),
    ("laplace", 0, 10_000_000),
    ("duchi", 0, 10_000_000),
    ("table", 0, 10_000_000),
]
ROWS = 100_000
BOOK = """
[collection]
name = "bench"
period = "1d"
device_epsilon = 9
release = {{ epsilon = 0.5, delta = 1e-8 }}
[metrics.value]
epsilon = 2
{rest}
"""


def codebook(mechanism: str, size: int) -> str:
    if not size:
        return BOOK.format(rest=f'mechanism = "{mechanism}"\ntype = "mean"\nbounds = [0, 1]')
    if size == 2:
        return BOOK.format(rest='type = "boolean"')
    values = json.dumps([f"value {index}" for index in range(size)])
    return BOOK.format(rest=f'mechanism = "{mechanism}"\ntype = "category"\nvalues = {values}')


def values(size: int) -> list[object]:
    """Rows with a long tail."""
    drawn = np.random.default_rng(1).random(ROWS) ** 3
    if not size:
        return list(drawn.tolist())
    items = (drawn * size).astype(int).tolist()
    return [bool(item) for item in items] if size == 2 else [f"value {item}" for item in items]


def engine(mechanism: str, size: int, devices: int) -> float:
    """CPU seconds from rows to intervals."""
    metric = Codebook.from_toml(codebook(mechanism, size)).metric("value")
    column, rng = Column.of(metric, values(size)), InsecureBulkRandomness(1)
    crowd = Crowd([column])
    run(column, column.held(crowd.draw(1_000, rng)), rng)  # libraries load
    start = time.process_time()
    found = run(column, column.held(crowd.draw(devices, rng)), rng)
    seconds = time.process_time() - start
    assert found.reports == devices
    return seconds


def command(mechanism: str, size: int, devices: int) -> float:
    """CPU seconds of `hubbub simulate` as a process."""
    with tempfile.TemporaryDirectory() as folder:
        book, data = Path(folder) / "metrics.toml", Path(folder) / "devices.csv"
        book.write_text(codebook(mechanism, size))
        data.write_text("\n".join(["value", *map(str, values(size))]))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        options = ["--codebook", str(book), "--data", str(data), "--devices", str(devices), "--seed", "1", "--json"]
        call = [sys.executable, "-m", "hubbub_cli", "simulate", *options]
        done = subprocess.run(call, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert json.loads(done.stdout)["metrics"]["value"]["reports"] == devices
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def one_pass(devices: int) -> float:
    """CPU seconds in which the generator draws one number for each device."""
    rng, start = InsecureBulkRandomness(1), time.process_time()
    rng.words(devices)
    return time.process_time() - start


def rows(*, long: bool = False) -> list[Row]:
    """The engine compared with one pass of the generator, and where there is a limit the whole command too."""
    found = []
    for case in [*LIMITS, *(OTHERS if long else ())]:
        mechanism, size, devices = case
        if mechanism not in registered():
            continue
        name = f"simulate {mechanism}, {f'{size:,} values' if size else 'a range'}, {devices:,} devices"
        pass_ = one_pass(devices)
        found.append(Row(f"{name}: engine", engine(*case), "s of CPU", "one pass of the generator", pass_))
        if case in LIMITS:
            found.append(Row(f"{name}: whole command", command(*case), "s of CPU", "limit", LIMITS[case], at_most(1)))
    return found


def main() -> None:
    print(show(rows(long=True)))


if __name__ == "__main__":
    main()
