"""The page docs/explanation/mechanism-comparison.md, made from the figures of a run."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from textwrap import fill

from benchmarks.mechanisms.claims import claims
from benchmarks.mechanisms.figures import Largest
from benchmarks.mechanisms.least import least_mean_variance
from benchmarks.mechanisms.plots import biased_noises
from benchmarks.mechanisms.run import OURS, Found
from benchmarks.mechanisms.work import CROWD, EPSILONS, REPORTS, SIZES

WIDTH = 118


def page(found: Found) -> str:
    parts = [*_head(found), *_shares(found), *_crowd(found), *_means(found), *_notes(found)]
    return "\n\n".join(parts) + "\n"


def _prose(text: str, bullet: str = "") -> str:
    """One paragraph or bullet point, wrapped to WIDTH."""
    return fill(bullet + " ".join(text.split()), WIDTH, subsequent_indent=" " * len(bullet), break_on_hyphens=False)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows))


def _name(who: str) -> str:
    return f"**{who}**" if who.startswith(OURS) else who


def _ours_first(names: Iterable[str]) -> list[str]:
    return sorted(dict.fromkeys(names), key=lambda who: not who.startswith(OURS))


def _head(found: Found) -> Iterator[str]:
    names = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    yield "# Mechanisms beside those of other libraries"
    yield _prose(
        f"""Made by `make bench-mechanisms`: one run, the same seeded values for all. The other libraries run in a
        separate environment, pinned in `benchmarks/mechanisms/peers.lock`: {names}; Python
        {platform.python_version()}, {_machine()}. Times are CPU time of one process on a machine that others used at
        the same time: good for comparing, not for quoting."""
    )
    verdict = {True: "holds", False: "**short**"}
    yield _table(
        ["claimed of the default choice, reports of at most 32 bytes", "measured", ""],
        [[claim.what, claim.found, verdict[claim.holds]] for claim in claims(found)],
    )


def _machine() -> str:
    info = Path("/proc/cpuinfo")
    names = [line for line in info.read_text().splitlines() if line.startswith("model name")] if info.exists() else []
    return f"{os.cpu_count()} cores of {names[0].split(':')[1].strip() if names else platform.machine()}"


def _shares(found: Found) -> Iterator[str]:
    yield "## Error of shares"
    yield _prose(
        f"""Mean squared error times reports, as a multiple of the least that any randomizer can have (Ye and Barg,
        arXiv 1702.00610 and 1708.00059), ± one standard error of the measurement. Values follow Zipf's law; where a
        library clips its estimates, the ones before clipping are used. {REPORTS} reports, repeated; fewer over 65,536
        values if one report takes milliseconds."""
    )
    yield _prose(
        """DE, GRR and RR are k-ary randomized response; OUE and `bitvec` send a bit for each value (`bitvec` with
        symmetric noise); OLH hashes, FastOLH with few public seeds; SS is subset selection; HR and HM are Hadamard
        response and the Hadamard mechanism."""
    )
    yield "![error against the length of the list](../images/mechanisms-accuracy.svg)"
    for size in SIZES:
        header = [f"{size:,} values", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS), "reports × repeats"]
        whos = _ours_first(one.who for one in found.shares if one.size == size)
        yield _table(header, [[_name(who), *_cells(found, size, who)] for who in whos])


def _cells(found: Found, size: int, who: str) -> list[str]:
    mine = {one.epsilon: one for one in found.shares if one.size == size and one.who == who}
    cells = [f"{mine[e].ratio:.2f} ± {mine[e].doubt:.2f}" if e in mine else "" for e in EPSILONS]
    return [*cells, ", ".join(sorted({f"{one.reports} × {one.repeats}" for one in mine.values()}))]


def _crowd(found: Found) -> Iterator[str]:
    yield "## The ten largest of 1024, and what it costs"
    yield _prose(
        f"""{CROWD:,} reports of values that follow Zipf's law. Error is the mean absolute error of the ten largest
        shares, as a part of their mean: a low squared error over all values can come from shrinking everything, and
        this shows it. "Largest" is the estimated share of the most frequent value divided by the true one. Where a
        server takes seconds there is only one draw, and the first three columns are little more than chance. The last
        two columns are CPU microseconds a report, measured at this number of reports and not extrapolated. Aggregators
        of multi-freq-ldpy clip at zero and rescale; the rows marked "unclipped" are estimates that we made from its
        reports."""
    )
    yield "![error against the cost on the server](../images/mechanisms-cost.svg)"
    for epsilon in (1.0, 4.0):
        mine = [one for one in found.crowd if one.epsilon == epsilon]
        yield _table(
            [f"epsilon {epsilon:g}", "of ten found", "error", "largest", "draws", "device, us", "server, us"],
            [
                [
                    _name(one.who),
                    f"{one.found:.1f}",
                    f"{one.error:.0%}",
                    f"{one.most:.2f}",
                    f"{one.draws}",
                    *_costs(one),
                ]
                for one in sorted(mine, key=lambda one: not one.who.startswith(OURS))
            ],
        )
    yield "Ours at 100,000 reports, CPU seconds to tally and estimate:"
    seconds = {(size, epsilon): f"{took:.3f} ({name})" for size, epsilon, name, took in found.server}
    yield _table(
        ["values", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)],
        [[f"{size:,}", *(seconds[size, epsilon] for epsilon in EPSILONS)] for size in SIZES],
    )


def _costs(one: Largest) -> tuple[str, str]:
    return f"{one.client:.1f}", f"{one.server:.2f}"


def _means(found: Found) -> Iterator[str]:
    biased, ends = biased_noises(found), {one.who: one for one in found.ends}
    yield "## A mean on [-1, 1]"
    yield _prose(
        f"""Variance of one report on {found.numbers[0].reports:,} values (a skewed Beta law), as a multiple of the
        least worst-case variance of an unbiased randomizer, found by linear programme on 9 inputs
        (`benchmarks/mechanisms/least.py`). Bias is at the upper end of the range at epsilon 1, ± one standard error.
        Noise that is cut at the bounds has little variance and a large bias, which more reports do not remove, so the
        biased rows do not compete for a mean."""
    )
    yield "![variance against epsilon](../images/mechanisms-means.svg)"
    rows = []
    for who in _ours_first(one.who.split()[0] if one.who.startswith(OURS) else one.who for one in found.numbers):
        mine = {one.epsilon: one for one in found.numbers if one.who == who or one.who.startswith(f"{who} ")}
        cells = [f"{mine[e].variance / least_mean_variance(e):.2f}" for e in EPSILONS]
        if who == OURS:
            cells = [f"{cell} ({mine[e].who.split()[1]})" for cell, e in zip(cells, EPSILONS, strict=True)]
        bias = f"{ends[who].bias:+.2f} ± {ends[who].doubt:.2f}"
        rows.append([_name(who), *cells, bias + (", **biased**" if who in biased else ""), f"{mine[1.0].client:.0f}"])
    yield _table(["", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS), "bias at 1", "device, us"], rows)
    yield _prose(
        """`canonical` of opendp is (epsilon, 1e-9)-private: asked for a delta of 0, this version ends the process with
        a segmentation fault. Except for `Snapping`, diffprivlib draws noise as floats, whose gaps can tell values
        apart (Mironov, CCS 2012); opendp draws exactly on a grid, as Hubbub does."""
    )


def _notes(found: Found) -> Iterator[str]:
    seen = found.defects
    yield "## What else to know"
    general = [
        """Chosen by hand, subset selection of multi-freq-ldpy is as accurate as Hubbub at every size (over long lists
        its reports hold up to thousands of values), and OUE and OLH come close from 1024 up: the formulas are public.
        The differences are the choice, the cost, and what comes with a number.""",
        """None of the four gives an interval with its estimates from local reports, or the epsilon that its floats
        really have. multi-freq-ldpy and diffprivlib have variance formulas that can be called separately; opendp has a
        checked privacy map, and draws without floats.""",
        """opendp (randomized response) and diffprivlib (`Binary`) lack debiasing: these tables add ours.""",
        "The error of Fast OLH has a part that more reports do not remove; at these numbers of reports it is small.",
        "Measured in this run, in the versions above:",
    ]
    measured = [
        f"""pure-ldp's RAPPOR client leaves a set bit set with probability {seen["rappor"]:.3f}; for f = 0.5 it should
        be 0.75. Its epsilon is infinite.""",
        f"""Its `convert_eps_to_f(3)` rounds to two digits and so realises epsilon {seen["rappor_epsilon"]:.3f}.""",
        f"""Its `FastLHServer.reset()` leaves counts: {seen["reset"]:.0f} of 1 report is still there.""",
        f"""multi-freq-ldpy's `L_GRR_Client` redraws its permanent step at every call: of devices asked 4,000 times,
        {seen["memory"]:.0%} are found out by their most frequent answer. With an answer that is kept, it would be 15
        %.""",
        f"""diffprivlib's `LaplaceTruncated` and `LaplaceBoundedDomain` are off by {seen["truncated"]:+.2f} and
        {seen["bounded"]:+.2f} at the upper end of [-1, 1], epsilon 1.""",
        *(f"{name} did not run: {error}" for name, error in found.failed.items()),
    ]
    yield "\n".join([*(_prose(text, "- ") for text in general), *(_prose(text, "  - ") for text in measured)])
