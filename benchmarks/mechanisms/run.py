"""One run of the comparison: other libraries in their environment, ours in this one, and all figures."""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.mechanisms import figures, ours
from benchmarks.mechanisms.figures import Accuracy, Largest, Noise
from benchmarks.mechanisms.work import CROWD, DRAWS, EPSILONS, SIZES, jobs, values
from hubbub.mechanisms import choose
from hubbub.mechanisms._least_variance import frequencies

HERE = Path(__file__).parent
ENVIRONMENT = HERE.parent.parent / ".venv-peers"
OURS = "hubbub"


@dataclass
class Found:
    """All figures of a run."""

    versions: dict[str, str] = field(default_factory=dict)
    defects: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    shares: list[Accuracy] = field(default_factory=list)
    crowd: list[Largest] = field(default_factory=list)
    numbers: list[Noise] = field(default_factory=list)
    ends: list[Noise] = field(default_factory=list)
    server: list[tuple[int, float, str, float]] = field(default_factory=list)
    """Ours at 100,000 reports: size, epsilon, mechanism, CPU seconds."""

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def load(cls, path: Path) -> Found:
        read = json.loads(path.read_text())
        for name, kind in (("shares", Accuracy), ("crowd", Largest), ("numbers", Noise), ("ends", Noise)):
            read[name] = [kind(*row) for row in read[name]]
        return cls(**read)


def everything() -> Found:
    found = Found()
    theirs(found)
    own(found)
    return found


def theirs(found: Found) -> None:
    """Run peers.py under its own interpreter, with the values in files."""
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        raise SystemExit(f"the other libraries are not installed: run `make bench-mechanisms`, or {HERE.name}/setup.sh")
    data, work = values(), list(jobs())
    with tempfile.TemporaryDirectory() as folder:
        asked, given, answers = (Path(folder) / name for name in ("work.json", "values.npz", "answers.npz"))
        asked.write_text(json.dumps(work))
        np.savez(given, **data)  # type: ignore[arg-type]  # numpy's types take the arrays for one of its flags
        subprocess.run([python, HERE / "peers.py", asked, given, answers], check=True)
        with np.load(answers) as file:
            arrays = {name: file[name] for name in file.files}
    report = json.loads(str(arrays.pop("report")))
    found.versions, found.defects = report["versions"], report["defects"]
    for job in work:
        took = report["jobs"][job["name"]]
        if "failed" in took:
            found.failed[job["name"]] = took["failed"]
        else:
            _enter(found, job, took, arrays, data[job["values"]])


def _enter(found: Found, job: dict[str, Any], took: dict[str, Any], arrays: dict[str, Any], inputs: Any) -> None:
    who, epsilon, size = f"{job['library']} {job['protocol']}", job["epsilon"], job["size"]
    estimates = arrays[job["name"]]
    raw = arrays.get(job["name"] + "/unclipped")
    each = 1e6 / (took["reports"] * took["repeats"])
    if job["kind"] == "mean":
        to = found.ends if job["values"] == "ends" else found.numbers
        to.append(figures.noise(who, inputs, estimates, epsilon, took["client"] * each))
    elif job["kind"] == "shares":
        least = frequencies(size, epsilon)
        found.shares.append(figures.accuracy(who, inputs, estimates if raw is None else raw, size, epsilon, least))
    else:
        cost = took["client"] * each, took["server"] * each
        found.crowd.append(figures.largest(who, inputs, estimates, epsilon, *cost))
        if raw is not None:
            found.crowd.append(figures.largest(f"{who}, unclipped by us", inputs, raw, epsilon, *cost))


def own(found: Found) -> None:
    """The default choices on the same values."""
    data = values()
    for size in SIZES:
        for epsilon in EPSILONS:
            made = ours.shares(data[f"values-{size}"], size, epsilon)
            least, who = frequencies(size, epsilon), f"{OURS} {made.mechanism.name}"
            found.shares.append(figures.accuracy(who, data[f"values-{size}"], made.estimates, size, epsilon, least))
            found.server.append((size, epsilon, *ours.server_seconds(size, epsilon)))
    for epsilon in (1.0, 4.0):
        made = ours.shares(data["crowd"], 1024, epsilon, repeats=DRAWS)
        cost = made.client, made.server / CROWD * 1e6
        who = f"{OURS} {made.mechanism.name}"
        found.crowd.append(figures.largest(who, data["crowd"], made.estimates, epsilon, *cost))
    for epsilon in EPSILONS:
        name, numbers = ours.numbers(data["numbers"], epsilon)
        client = ours.one_report(choose(ours.UNIT, epsilon), 0.25)
        found.numbers.append(figures.noise(f"{OURS} {name}", data["numbers"], numbers, epsilon, client))
    _, numbers = ours.numbers(data["ends"], 1.0)
    found.ends.append(figures.noise(OURS, data["ends"], numbers, 1.0, 0.0))
