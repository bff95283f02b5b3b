"""The comparison with other libraries: what can be checked without installing them."""

from __future__ import annotations

import ast
import re

import numpy as np
import pytest

from benchmarks.mechanisms import figures, peers, work
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "explanation" / "mechanism-comparison.md").read_text()


def test_everybody_is_asked_about_values_that_exist() -> None:
    jobs, data = list(work.jobs()), work.values()
    assert len({job["name"] for job in jobs}) == len(jobs)
    assert {job["values"] for job in jobs} <= set(data)
    assert {job["library"] for job in jobs} == set(peers.LIBRARIES)
    again = work.values()
    assert all(np.array_equal(data[name], again[name]) for name in data)


def test_what_runs_in_the_others_environment_imports_nothing_of_ours() -> None:
    tree = ast.parse((ROOT / "benchmarks" / "mechanisms" / "peers.py").read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not {name.split(".")[0] for name in names} & {"hubbub", "hubbub_cli", "benchmarks"}


def test_an_exact_estimate_has_no_error_and_a_shifted_one_has_its_square() -> None:
    values = np.array([0, 0, 1, 2])
    truth = np.array([[0.5, 0.25, 0.25]])
    assert figures.accuracy("a", values, truth, 3, 1, least=1).error == 0
    assert figures.accuracy("a", values, truth + 0.1, 3, 1, least=2).ratio == pytest.approx(4 * 0.1**2 / 2)


def test_shrinking_shows_in_the_ten_largest() -> None:
    values = work.zipf(100, 5000, 1)
    truth = figures.true_shares(values, 100)[None, :]
    whole, shrunk = (figures.largest("a", values, estimates, 1, 0, 0) for estimates in (truth, truth / 2))
    assert (whole.found, whole.error, whole.most) == (10, 0, 1)
    assert (shrunk.found, shrunk.error, shrunk.most) == (10, 0.5, 0.5)


def test_the_page_claims_nothing_that_was_measured_short() -> None:
    table = re.findall(r"^\| .* \| (holds|\*\*short\*\*) \|$", PAGE, re.MULTILINE)
    assert table == ["holds"] * 5
