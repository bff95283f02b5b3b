"""Other libraries' randomizers behind one interface. A script for THEIR environment: it must not import hubbub.

    .venv-peers/bin/python peers.py work.json values.npz answers.npz

`work.json` holds a list of jobs, `values.npz` the devices' values by name. `answers.npz` gets one array of estimates
per job (repeats by items), and a JSON text with the cost of each job, in CPU seconds of this process.
"""

from __future__ import annotations

import json
import math
import random
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

LIBRARIES = ("pure-ldp", "multi-freq-ldpy", "opendp", "diffprivlib")
FEW_HASHES = {"below": 4096, "small": 1000, "large": 50}
"""Numbers of public hashes of pure-ldp's Fast OLH: its server tabulates hashes times items when it is made."""


class Oracle(NamedTuple):
    """One library's frequency oracle: a call per report, and a call for all reports."""

    client: Callable[[int], Any]
    server: Callable[[Sequence[Any]], Any]
    """Estimated shares of all items, as the library gives them."""
    unclipped: Callable[[], Any] | None = None
    """What the last call would have returned without clipping, if the library only gives clipped shares."""


# -- pure-ldp -----------------------------------------------------------------------------------


def _pure(client: Any, new_server: Callable[[], Any], size: int) -> Oracle:
    def serve(reports: Sequence[Any]) -> Any:
        server = new_server()
        server.aggregate_all(reports)
        return server.estimate_all(range(size), suppress_warnings=True) / len(reports)

    return Oracle(client.privatise, serve)


def pure_ldp(protocol: str, size: int, epsilon: float) -> Oracle:
    from pure_ldp import frequency_oracles as fo

    def same(index: int) -> int:
        return index

    known: dict[str, Callable[[], tuple[Any, Callable[[], Any]]]] = {
        "DE": lambda: (fo.DEClient(epsilon, size, same), lambda: fo.DEServer(epsilon, size, same)),
        "SUE": lambda: (fo.UEClient(epsilon, size, False, same), lambda: fo.UEServer(epsilon, size, False, same)),
        "OUE": lambda: (fo.UEClient(epsilon, size, True, same), lambda: fo.UEServer(epsilon, size, True, same)),
        "OLH": lambda: (
            fo.LHClient(epsilon, size, use_olh=True, index_mapper=same),
            lambda: fo.LHServer(epsilon, size, use_olh=True, index_mapper=same),
        ),
        "HM": lambda: (
            fo.HadamardMechClient(epsilon, size, 1, use_optimal_t=True, index_mapper=same),
            lambda: fo.HadamardMechServer(epsilon, size, 1, use_optimal_t=True, index_mapper=same),
        ),
    }
    if protocol == "FastOLH":
        few = FEW_HASHES["small" if size < FEW_HASHES["below"] else "large"]
        server = fo.FastLHServer(epsilon, size, few, use_olh=True, index_mapper=same)
        client = fo.FastLHClient(epsilon, size, few, use_olh=True, index_mapper=same)

        def fresh() -> Any:
            # Its reset() leaves the counts, so they are cleared here. A new server would hash all items again.
            server.reset()
            server.hash_counts[:] = 0
            return server

        return _pure(client, fresh, size)
    if protocol == "HR":
        decoder = fo.HadamardResponseServer(epsilon, size, same)
        encoder = fo.HadamardResponseClient(epsilon, size, decoder.get_hash_funcs(), same)

        def emptied() -> Any:
            decoder.reset()
            return decoder

        return _pure(encoder, emptied, size)
    client, new_server = known[protocol]()
    return _pure(client, new_server, size)


# -- multi-freq-ldpy ----------------------------------------------------------------------------


def multi_freq_ldpy(protocol: str, size: int, epsilon: float) -> Oracle:
    """The library's aggregators clip at zero and rescale; the unclipped shares are intercepted."""
    from multi_freq_ldpy.pure_frequency_oracles import GRR, LH, SS, UE

    known: dict[str, tuple[Any, Any, Any]] = {
        "GRR": (GRR, GRR.GRR_Client, lambda reports: GRR.GRR_Aggregator_MI(reports, size, epsilon)),
        "SS": (SS, SS.SS_Client, lambda reports: SS.SS_Aggregator_MI(reports, size, epsilon)),
        "OUE": (UE, UE.UE_Client, lambda reports: UE.UE_Aggregator_MI(reports, epsilon)),
        "OLH": (LH, LH.LH_Client, lambda reports: LH.LH_Aggregator_MI(reports, size, epsilon)),
    }
    module, client, aggregate = known[protocol]
    clip = module.MI
    caught: list[Any] = []

    def catch(counts: Any, n: int, p: float, q: float) -> Any:
        caught[:] = [(np.asarray(counts) / n - q) / (p - q)]
        return clip(counts, n, p, q)

    def serve(reports: Sequence[Any]) -> Any:
        module.MI = catch
        try:
            return aggregate(reports)
        finally:
            module.MI = clip

    return Oracle(lambda value: client(value, size, epsilon), serve, lambda: caught[0])


# -- opendp, diffprivlib: frequencies -----------------------------------------------------------


def opendp(protocol: str, size: int, epsilon: float) -> Oracle:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    if protocol == "RR":
        keep = _largest(lambda p: dp.m.make_randomized_response(list(range(size)), p).map(1), epsilon, size)
        lie = (1 - keep) / (size - 1)
        measure = dp.m.make_randomized_response(list(range(size)), keep)

        def debias(reports: Sequence[int]) -> Any:  # not in the library; its documentation shows it for two values
            return (np.bincount(reports, minlength=size) / len(reports) - lie) / (keep - lie)

        return Oracle(measure, debias)
    space = dp.bitvector_domain(max_weight=1), dp.discrete_distance()
    f = 2 / (1 + math.exp(epsilon / 2)) * (1 + 1e-12)
    flip = dp.m.make_randomized_response_bitvec(*space, f=f)

    def client(value: int) -> bytes:
        bits = np.zeros(size, np.uint8)
        bits[value] = 1
        return bytes(flip(np.packbits(bits, bitorder="little").tobytes()))

    return Oracle(
        client, lambda reports: np.array(dp.m.debias_randomized_response_bitvec(list(reports), f))[:size] / len(reports)
    )


def _largest(loss: Callable[[float], float], epsilon: float, size: int) -> float:
    """The largest probability that the library's own privacy map allows."""
    keep = math.exp(epsilon) / (math.exp(epsilon) + size - 1)
    while loss(keep) > epsilon:
        keep -= 1e-12
    return keep


def diffprivlib(protocol: str, size: int, epsilon: float) -> Oracle:
    from diffprivlib.mechanisms import Binary

    assert (protocol, size) == ("Binary", 2)
    binary = Binary(epsilon=epsilon, value0="0", value1="1")
    keep = math.exp(epsilon) / (math.exp(epsilon) + 1)

    def debias(reports: Sequence[str]) -> Any:  # not in the library
        yes = (np.mean([report == "1" for report in reports]) - (1 - keep)) / (2 * keep - 1)
        return np.array([1 - yes, yes])

    return Oracle(lambda value: binary.randomise(str(value)), debias)


ORACLES: dict[str, Callable[[str, int, float], Oracle]] = {
    "pure-ldp": pure_ldp,
    "multi-freq-ldpy": multi_freq_ldpy,
    "opendp": opendp,
    "diffprivlib": diffprivlib,
}


# -- means --------------------------------------------------------------------------------------


def noise(library: str, protocol: str, epsilon: float) -> Callable[[float], float]:
    """A function that adds noise to a number in [-1, 1]."""
    if library == "opendp":
        import opendp.prelude as dp

        dp.enable_features("contrib")
        space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
        if protocol == "laplace":
            laplace: Callable[[float], float] = dp.m.make_laplace(*space, scale=2 / epsilon * (1 + 1e-12))
            return laplace
        canonical: Callable[[float], float] = dp.m.make_canonical_noise(*space, d_in=2.0, d_out=(epsilon, 1e-9))
        return canonical
    from diffprivlib import mechanisms as dm

    bounds = {"lower": -1.0, "upper": 1.0}
    shape = {
        "Laplace": lambda: dm.Laplace(epsilon=epsilon, sensitivity=2.0),
        "Staircase": lambda: dm.Staircase(epsilon=epsilon, sensitivity=2.0),
        "LaplaceTruncated": lambda: dm.LaplaceTruncated(epsilon=epsilon, sensitivity=2.0, **bounds),
        "LaplaceFolded": lambda: dm.LaplaceFolded(epsilon=epsilon, sensitivity=2.0, **bounds),
        "LaplaceBoundedDomain": lambda: dm.LaplaceBoundedDomain(epsilon=epsilon, sensitivity=2.0, **bounds),
        "Snapping": lambda: dm.Snapping(epsilon=epsilon, sensitivity=2.0, **bounds),
    }[protocol]()
    draw: Callable[[float], float] = shape.randomise
    return draw


# -- jobs ---------------------------------------------------------------------------------------


def estimate_shares(job: dict[str, Any], values: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Shares by item, for each repeat. Stops early when the job's time is used up."""
    size, epsilon = job["size"], job["epsilon"]
    start = time.process_time()
    oracle = ORACLES[job["library"]](job["protocol"], size, epsilon)
    oracle.server([oracle.client(int(value)) for value in values[:2]])  # code that compiles at first use compiles now
    made = time.process_time() - start
    found, raw, client, server, began = [], [], 0.0, 0.0, time.process_time()
    for _ in range(job["repeats"]):
        start = time.process_time()
        reports = [oracle.client(value) for value in values.tolist()]
        middle = time.process_time()
        found.append(np.asarray(oracle.server(reports), np.float64))
        end = time.process_time()
        client, server = client + middle - start, server + end - middle
        if oracle.unclipped:
            raw.append(np.asarray(oracle.unclipped(), np.float64))
        if end - began > job["seconds"]:
            break
    took = {"client": client, "server": server, "setup": made, "repeats": len(found), "reports": len(values)}
    return took, {"": np.array(found), **({"/unclipped": np.array(raw)} if raw else {})}


def estimate_numbers(job: dict[str, Any], values: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """One noisy number per value."""
    draw = noise(job["library"], job["protocol"], job["epsilon"])
    draw(0.5)
    start = time.process_time()
    found = np.array([draw(value) for value in values.tolist()])
    return {"client": time.process_time() - start, "repeats": 1, "reports": len(values)}, {"": found}


def look_for_defects() -> dict[str, float]:
    """Measure whether defects that readers of these libraries reported exist in the installed versions."""
    from diffprivlib.mechanisms import LaplaceBoundedDomain, LaplaceTruncated
    from multi_freq_ldpy.long_freq_est.L_GRR import L_GRR_Client
    from pure_ldp.frequency_oracles import FastLHServer, RAPPORClient

    draws, devices, size = 20_000, 20, 16
    rappor = RAPPORClient(0.5, size, [[lambda _text: 3]], num_of_cohorts=1, index_mapper=lambda index: index)
    hashing = FastLHServer(1.0, 4, 8, use_olh=True)
    hashing.aggregate((0, 0))
    hashing.reset()
    repeated = [[L_GRR_Client(5, size, 1.0, 0.5) for _ in range(4000)] for _ in range(devices)]
    told = [np.bincount(np.asarray(answers, np.int64), minlength=size).argmax() == 5 for answers in repeated]
    bounds = {"epsilon": 1.0, "sensitivity": 2.0, "lower": -1.0, "upper": 1.0}
    truncated, bounded = LaplaceTruncated(**bounds), LaplaceBoundedDomain(**bounds)
    return {
        "rappor": float(np.mean([rappor.privatise(0)[0][3] for _ in range(draws)])),
        "rappor_epsilon": float(rappor.convert_f_to_eps(rappor.convert_eps_to_f(3.0), 1)),
        "reset": float(hashing.hash_counts.sum()),
        "memory": float(np.mean(told)),
        "truncated": float(np.mean([truncated.randomise(1.0) for _ in range(draws)]) - 1),
        "bounded": float(np.mean([bounded.randomise(1.0) for _ in range(draws)]) - 1),
    }


def main(work: str, data: str, answers: str) -> None:
    warnings.simplefilter("ignore")
    with open(work) as file:
        jobs = json.load(file)
    values = np.load(data)
    arrays: dict[str, Any] = {}
    report: dict[str, Any] = {"versions": {name: version(name) for name in (*LIBRARIES, "numpy")}, "jobs": {}}
    for job in jobs:
        random.seed(job["seed"])
        np.random.seed(job["seed"])
        run = estimate_numbers if job["kind"] == "mean" else estimate_shares
        try:
            took, found = run(job, values[job["values"]])
        except Exception as error:  # noqa: BLE001  that a library cannot do a job is a result, and is reported
            report["jobs"][job["name"]] = {"failed": f"{type(error).__name__}: {error}"}
            continue
        report["jobs"][job["name"]] = took
        arrays.update({job["name"] + suffix: array.astype(np.float32) for suffix, array in found.items()})
        print(f"{job['name']}: {took['repeats']} x {took['reports']} reports", file=sys.stderr, flush=True)
    report["defects"] = look_for_defects()
    np.savez(answers, report=np.array(json.dumps(report)), **arrays)


if __name__ == "__main__":
    main(*sys.argv[1:])
