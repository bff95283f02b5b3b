"""Accuracy at a release target: writes the tables of docs/explanation/near-the-limit.md.

    .venv/bin/python -m scripts.make_release_table

For each list, crowd, target and cap: the certified local epsilon, the mechanism and the standard error that
`hubbub select` gives, beside the central Gaussian mechanism and the local bound. Errors and bounds are those of the
devices that reported, all of them: `h` is the honest share of them, and sets only the guarantee.
"""

from __future__ import annotations

import re
import sys
from fractions import Fraction
from functools import cache
from pathlib import Path

from hubbub.accounting.central_gaussian import central_laplace
from hubbub.accounting.release_choice import ReleaseChoice, choose_for_release
from hubbub.accounting.release_target import Target
from hubbub.mechanisms import Bounds, Categories, Domain
from hubbub.mechanisms._exact_arithmetic import LARGEST_EPSILON

PAGE = Path(__file__).parent.parent / "docs/explanation/near-the-limit.md"
SIZES = (2, 16, 128, 1024, 65_536)
CROWDS = (10**4, 10**5, 10**6)
EPSILONS = (Fraction(1, 2), Fraction(1))
DELTA = Fraction(1, 10**8)
CAPS = (Fraction(2), Fraction(4), Fraction(8), LARGEST_EPSILON)
HONEST = (Fraction(1), Fraction(9, 10))
MEAN = Bounds(Fraction(0), Fraction(1))


@cache
def choice(domain: Domain, devices: int, epsilon: Fraction, cap: Fraction, honest: Fraction) -> ReleaseChoice:
    """What `hubbub select --local-cap` would choose, with no limit on the bytes of a report."""
    target = Target(epsilon, DELTA, int(devices * honest), devices)
    return choose_for_release(domain, target, cap, None)


def frequencies() -> str:
    """One row for each list, target, crowd and cap."""
    rows = [
        "| values | eps | devices | cap | eps0 | mechanism | error | × central | × local "
        "| eps0, h = 0.9 | error | × central |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for size in SIZES:
        for epsilon in EPSILONS:
            for devices in CROWDS:
                for cap in CAPS:
                    made, part = (choice(Categories(size), devices, epsilon, cap, h) for h in HONEST)
                    cells = (
                        f"{size:,}",
                        f"{float(epsilon):g}",
                        f"{devices:,}",
                        "none" if cap == LARGEST_EPSILON else f"{float(cap):g}",
                        f"{float(made.mechanism.epsilon):g}",
                        made.chosen.title,
                        f"{made.error:.3g}",
                        f"{made.error / made.central:.2f}",
                        f"{made.error / (made.least or 0):.2f}",
                        f"{float(part.mechanism.epsilon):g}",
                        f"{part.error:.3g}",
                        f"{part.error / part.central:.2f}",
                    )
                    rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def means() -> str:
    """The same for a mean over the width of its bounds, beside the central Laplace mechanism."""
    rows = [
        "| eps | devices | cap | eps0 | error | × central Laplace | × central Gaussian | error, h = 0.9 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for epsilon in EPSILONS:
        for devices in CROWDS:
            for cap in CAPS:
                made, part = (choice(MEAN, devices, epsilon, cap, h) for h in HONEST)
                cells = (
                    f"{float(epsilon):g}",
                    f"{devices:,}",
                    "none" if cap == LARGEST_EPSILON else f"{float(cap):g}",
                    f"{float(made.mechanism.epsilon):g}",
                    f"{made.error:.3g}",
                    f"{made.error / central_laplace(MEAN, devices, float(epsilon)):.1f}",
                    f"{made.error / made.central:.1f}",
                    f"{part.error:.3g}",
                )
                rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def worst_of_lists() -> float:
    """The largest ratio to the central Gaussian mechanism, for 16 to 1,024 values, without a cap, all honest."""
    return max(
        (made := choice(Categories(size), devices, epsilon, LARGEST_EPSILON, Fraction(1))).error / made.central
        for size in SIZES
        if 16 <= size <= 1024
        for epsilon in EPSILONS
        for devices in CROWDS
    )


def main() -> None:
    text = PAGE.read_text()
    for name, made in (("frequencies", frequencies()), ("means", means())):
        pattern = rf"(?<=<!-- table: {name} -->\n\n).*?(?=\n\n<!-- end of table -->)"
        text, count = re.subn(pattern, made.replace("\\", r"\\"), text, flags=re.DOTALL)
        if count != 1:
            sys.exit(f"{PAGE} must have the table {name} exactly once")
    PAGE.write_text(text)
    print(f"{PAGE}: the worst ratio to the central Gaussian for 16 to 1,024 values is {worst_of_lists():.3f}")


if __name__ == "__main__":
    main()
