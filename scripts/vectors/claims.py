"""tests/vectors/v1/claims.json: parameters of mechanisms, and whether they keep the epsilon that is stated."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any

from hubbub.errors import InvalidParameter
from hubbub.mechanisms import Bounds, mechanism
from scripts.vectors.randomizer import of_size

__all__ = ["claims", "holds"]

_EPSILONS = ("0.0001", "0.7", "1", "4", "30")
_W = 2**64
_ODD = ["-1", "3"]
_LADDER = {"sets": [[1, 2, 40_000], [2, 1, 25_536]]}


def claims() -> list[dict[str, Any]]:
    return list(_cases())


def holds(case: dict[str, Any]) -> bool:
    """Whether a device may run a mechanism with these parameters under this epsilon."""
    domain = case["domain"]
    over = of_size(case["mechanism"], domain["size"]) if "size" in domain else Bounds(*map(Fraction, domain["bounds"]))
    try:
        mechanism(case["mechanism"]).from_parameters(Fraction(case["epsilon"]), over, case["parameters"])
    except InvalidParameter:
        return False
    return True


def _cases() -> Iterator[dict[str, Any]]:
    for case in [*_borders(), *_impossible()]:
        yield case | {"holds": holds(case)}


def _calibrated(name: str, epsilon: str, domain: dict[str, Any], **options: Any) -> dict[str, Any]:
    over = of_size(name, domain["size"]) if "size" in domain else Bounds(*map(Fraction, domain["bounds"]))
    built = mechanism(name).calibrate(Fraction(epsilon), over, **options)
    return {
        "mechanism": name,
        "epsilon": epsilon,
        "domain": domain,
        "parameters": json.loads(json.dumps(built.parameters())),
    }


def _with(case: dict[str, Any], name: str, value: int) -> dict[str, Any]:
    changed = copy.deepcopy(case)
    changed["parameters"][name] = str(value)
    return changed


def _borders() -> Iterator[dict[str, Any]]:
    """Each parameter at the last value that holds, and one unit further."""
    few, numbers = {"size": 5}, {"bounds": _ODD}
    kept: list[tuple[str, dict[str, Any]]] = [("rr", {"size": 2}), ("duchi", numbers)]
    kept += [(name, few) for name in ("krr", "hadamard", "linear-hash", "olh", "subset")]
    for name, domain in kept:
        for epsilon in _EPSILONS:
            case = _calibrated(name, epsilon, domain)
            yield from _border(case, partial(_with, case, "keep"), +1)
    for name in ("oue", "sue"):
        for epsilon in _EPSILONS:
            case = _calibrated(name, epsilon, few)
            yield from _border(case, partial(_with, case, "flip"), -1)
    for name, options in (("piecewise", {"steps": 4}), ("hybrid", {"steps": 4}), ("table", {"points": 9})):
        for epsilon in ("0.7", "1", "4"):
            case = _calibrated(name, epsilon, numbers, **options)
            yield from _border(case, partial(_with, case, "high"), +1)
    for epsilon in _EPSILONS:
        case = _calibrated("laplace", epsilon, numbers, steps=7)
        yield from _border(case, partial(_with, case, "scale"), -1)
    for epsilon in _EPSILONS:
        case = _calibrated("rr", epsilon, {"size": 2}) | {"mechanism": "matrix"}
        yield from _border(case, partial(_two_columns, case), +1)
    for name, given in (("ladder", _LADDER), ("tree", {"sets": _LADDER["sets"]})):
        for epsilon in _EPSILONS:
            case = _calibrated(name, epsilon, few, **given)
            yield from _border(case, partial(_with, case, "high"), +1)
    for epsilon in ("0.7", "1", "4"):
        yield from _least_epsilon(_calibrated("krr", epsilon, few))


def _two_columns(case: dict[str, Any], keep: int) -> dict[str, Any]:
    columns = [[str(keep), str(_W - keep)], [str(_W - keep), str(keep)]]
    return case | {"parameters": {"columns": columns}}


def _border(case: dict[str, Any], at: Callable[[int], dict[str, Any]], further: int) -> Iterator[dict[str, Any]]:
    """The cases on either side of where a parameter stops to hold, looked for from the calibrated value on."""
    parameters = case["parameters"]
    name = next(name for name in ("keep", "flip", "high", "scale") if name in parameters)
    good = int(parameters[name])
    step = further
    while holds(at(good + step)):
        good, step = good + step, 2 * step
    bad = good + step
    while abs(bad - good) > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if holds(at(middle)) else (good, middle)
    yield at(good)
    yield at(bad)


def _least_epsilon(case: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The same integers under the least epsilon of 30 decimals that they keep, and one digit less."""
    unit = Fraction(1, 10**30)
    good, bad = int(Fraction(case["epsilon"]) / unit), int(Fraction(case["epsilon"]) / unit * Fraction(9, 10))
    while good - bad > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if holds(case | {"epsilon": str(middle * unit)}) else (good, middle)
    for number in (good, bad):
        yield case | {"epsilon": f"{number // 10**30}.{number % 10**30:030}"}


def _impossible() -> Iterator[dict[str, Any]]:
    """Parameters that are no mechanism, or no longer private for another reason than one ratio."""
    krr, laplace = _calibrated("krr", "1", {"size": 5}), _calibrated("laplace", "1", {"bounds": _ODD}, steps=7)
    yield _with(krr, "keep", _W // 5)
    yield _with(krr, "keep", 0)
    yield _with(krr, "keep", _W)
    yield krr | {"domain": {"size": 4}}
    yield krr | {"parameters": {}}
    for value in (1, -1, True, None, "", "-1", "0x1", " 1", "1" * 41, "\u0661"):
        yield krr | {"parameters": {"keep": value}}
    yield krr | {"parameters": {"keep": 2**53 - 1}, "domain": {"size": 65_536}}  # a number is as good as its text
    reach = int(laplace["parameters"]["reach"])
    yield _with(laplace, "reach", reach - 1)
    yield _with(laplace, "reach", reach + 1)
    yield _with(laplace, "rate", 0)
    yield _with(laplace, "steps", 65)
    yield _with(_calibrated("subset", "1", {"size": 8}), "count", 8)
    yield _with(_calibrated("olh", "1", {"size": 8}), "buckets", 4)
    for buckets in (4, 5):  # both would keep epsilon, but 4 is no prime
        case = _with(_calibrated("olh", "1", {"size": 8}), "keep", _W * 2 // 5)
        yield case | {"parameters": case["parameters"] | {"buckets": buckets}}
    for bits in (0, 11):
        yield _with(_calibrated("linear-hash", "1", {"size": 8}), "bits", bits)
    yield _with(_calibrated("oue", "1", {"size": 8}), "flip", 2**63)
    yield from _impossible_mixtures()
    yield from _impossible_matrices()
    yield from _impossible_grids()


def _impossible_mixtures() -> Iterator[dict[str, Any]]:
    ladder = _calibrated("ladder", "1", {"size": 8}, sets=[[1, 2, 40_000], [4, 1, 5_536]], windows=[[2, 20_000]])
    yield ladder
    changes: list[dict[str, Any]] = [
        {"low": "0"},
        {"low": ladder["parameters"]["high"]},
        {"sets": [[1, 2, 40_000], [4, 1, 5_537]]},
        {"sets": [[4, 1, 5_536], [1, 2, 40_000]]},
        {"sets": [[1, 2, 22_768], [1, 3, 22_768]]},
        {"sets": [[1, 8, 40_000], [4, 1, 5_536]]},
        {"sets": [[1, 0, 40_000], [4, 1, 5_536]]},
        {"sets": [[1, 2, 40_000], [8, 1, 5_536]]},
        {"sets": [[1, 2, 45_536], [4, 1, 0]]},
        {"sets": [[1, 2, "40000"], [4, 1, 5_536]]},
        {"sets": [[1, 2], [4, 1]]},
        {"sets": "none"},
        {"windows": [[8, 20_000]]},
        {"windows": [[0, 20_000]]},
        {"windows": [[2, 20_000, 1]]},
        {"sets": [], "windows": []},
        {"sets": [], "windows": [[2, 65_536]]},
        {"sets": [[2, 1, 65_536]], "windows": []},
        {"low": str(2**60), "high": str(2**61)},
        {"widths": []},
    ]
    for change in changes:
        yield ladder | {"parameters": ladder["parameters"] | change}
    tree = _calibrated("tree", "1", {"size": 8}, sets=[[1, 2, 65_536]])
    yield tree | {"parameters": tree["parameters"] | {"windows": []}}
    yield tree | {"parameters": tree["parameters"] | {"sets": [[2, 1, 65_536]]}}


def _impossible_matrices() -> Iterator[dict[str, Any]]:
    matrix = _two_columns(_calibrated("rr", "1", {"size": 2}) | {"mechanism": "matrix"}, 2**63 + 2**60)
    third = [[str(_W // 2), str(_W // 4), str(_W // 4)], [str(_W // 4), str(_W // 2), str(_W // 4)]]
    never = [[str(_W // 2), str(_W // 2), "0"], [str(_W // 2), str(_W // 2), "0"]]
    once = [[str(_W // 2), str(_W // 2 - 1), "1"], [str(_W // 2), str(_W // 2), "0"]]
    for columns in (third, never, once, third[:1], [third[0], third[1][:2]], [[str(_W)], [str(_W)]]):
        yield matrix | {"parameters": {"columns": columns}}
    short = copy.deepcopy(matrix)
    short["parameters"]["columns"][0][0] = str(int(short["parameters"]["columns"][0][0]) - 1)
    yield short


def _impossible_grids() -> Iterator[dict[str, Any]]:
    table = _calibrated("table", "1", {"bounds": _ODD}, points=9)
    yield _with(table, "low", 0)
    yield _with(table, "steps", 7)
    for place, change in ((0, 1), (2, 1), (2, -1), (3, 1), (2, -(10**6))):
        changed = copy.deepcopy(table)
        changed["parameters"]["columns"][1][place] += change
        yield changed
    lists: list[Any] = [[], table["parameters"]["columns"][::-1], table["parameters"]["columns"][:1] * 2]
    for columns in lists:
        yield table | {"parameters": table["parameters"] | {"columns": columns}}
    for name in ("piecewise", "hybrid"):
        case = _calibrated(name, "4", {"bounds": _ODD}, steps=4)
        for parameter, value in (("steps", 0), ("stride", 0), ("window", 0), ("window", 400), ("low", 0)):
            yield _with(case, parameter, value)
    yield _with(_with(_calibrated("hybrid", "4", {"bounds": _ODD}, steps=4), "inner", 0), "outer", 0)
