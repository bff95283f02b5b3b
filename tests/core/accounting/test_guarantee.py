"""The public questions about one batch: what is answered, what is refused, and how answers relate."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction
from itertools import pairwise

import pytest
from scipy import stats

from hubbub.accounting import (
    AnyRandomizer,
    CloneRandomizer,
    compose,
    composed_delta,
    delta_at,
    guarantee,
    guarantee_curve,
    min_reports,
)
from hubbub.accounting.blanket import Blankets
from hubbub.accounting.guarantee import Randomizer
from hubbub.errors import InvalidParameter
from hubbub.mechanisms import (
    Amplification,
    Atom,
    BinaryRandomizedResponse,
    Bounds,
    Categories,
    DiscreteLaplaceMean,
    KaryRandomizedResponse,
    MatrixResponse,
    Pair,
    Table,
)

RR = BinaryRandomizedResponse.calibrate(1, Categories(2))
KRR = KaryRandomizedResponse.calibrate(2, Categories(10))
LAPLACE = DiscreteLaplaceMean.calibrate(1, Bounds(Fraction(0), Fraction(1)))
ALL: list[Randomizer] = [RR, KRR, LAPLACE, AnyRandomizer(1), CloneRandomizer(1), *MatrixResponse.examples(1.0)[:2]]


@pytest.mark.parametrize("mechanism", ALL, ids=lambda m: m.name)
def test_a_guarantee_names_its_method_reports_and_assumptions(mechanism: Randomizer) -> None:
    answer = guarantee(mechanism, 5000, 1e-6)
    assert 0 < answer.epsilon < answer.local_epsilon == mechanism.realised_epsilon
    assert answer.amplified
    assert answer.reports == 5000
    assert answer.adjacency == "replacement"
    assert answer.method in ("blanket", "exact-binary", "extremal-pair", "clone-fmt21")
    assert any("shuffler" in assumption for assumption in answer.assumptions)
    with pytest.raises(FrozenInstanceError):
        answer.epsilon = 0.0  # type: ignore[misc]


def test_the_method_is_the_one_that_gave_the_value() -> None:
    class Silent:
        """A mechanism that describes no pairs."""

        name, realised_epsilon = "silent", 1.0

        def amplification(self) -> Amplification:
            return Amplification(())

    of: list[Randomizer] = [RR, KRR, AnyRandomizer(1), CloneRandomizer(1)]
    methods = [guarantee(mechanism, 5000, 1e-6).method for mechanism in of]
    assert methods == ["exact-binary", "blanket", "extremal-pair", "clone-fmt21"]
    silent = guarantee(Silent(), 5000, 1e-6)
    assert (silent.method, silent.epsilon) == ("extremal-pair", guarantee(AnyRandomizer(1), 5000, 1e-6).epsilon)


@pytest.mark.parametrize("mechanism", ALL, ids=lambda m: m.name)
def test_delta_at_and_guarantee_agree(mechanism: Randomizer) -> None:
    answer = guarantee(mechanism, 3000, 1e-7)
    assert delta_at(mechanism, 3000, answer.epsilon) <= 1e-7
    assert delta_at(mechanism, 3000, answer.epsilon * 0.9999) > 1e-7 * 0.99
    assert delta_at(mechanism, 3000, mechanism.realised_epsilon) == 0


@pytest.mark.parametrize("mechanism", ALL, ids=lambda m: m.name)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 1e-6), pytest.param(0.05, 1e-9, marks=pytest.mark.full)])
def test_min_reports_meets_its_target_and_a_smaller_batch_does_not(
    mechanism: Randomizer, epsilon: float, delta: float
) -> None:
    reports = min_reports(mechanism, epsilon, delta)
    assert guarantee(mechanism, reports, delta).epsilon <= epsilon
    assert guarantee(mechanism, math.floor(reports * 0.9999) - 1, delta).epsilon > epsilon


@pytest.mark.everyday("krr", "laplace", "any")
@pytest.mark.parametrize("mechanism", ALL, ids=lambda m: m.name)
def test_more_reports_and_larger_deltas_never_cost_privacy(mechanism: Randomizer) -> None:
    by_reports = [guarantee(mechanism, n, 1e-6).epsilon for n in (1, 2, 10, 300, 20_000, 10**7, 10**10)]
    by_delta = [guarantee(mechanism, 1000, d).epsilon for d in (0, 1e-300, 1e-12, 1e-6, 1e-2, 0.5, 1)]
    for answers in (by_reports, by_delta):
        assert all(b <= a * (1 + 1e-5) for a, b in pairwise(answers))


@pytest.mark.everyday
@pytest.mark.parametrize("epsilon0", [0.001, 1, 20])
@pytest.mark.parametrize("make", [AnyRandomizer, lambda e: KaryRandomizedResponse.calibrate(e, Categories(5))])
@pytest.mark.parametrize("reports", [1, 2, 1000, 10**7])
def test_extremes_are_answered(epsilon0: float, make: type[AnyRandomizer], reports: int) -> None:
    mechanism = make(epsilon0)
    local = mechanism.realised_epsilon
    assert guarantee(mechanism, reports, 0).epsilon == local
    assert guarantee(mechanism, reports, 1).epsilon == 0
    for delta in (1e-300, 1e-12, 1e-2, 0.999):
        answer = guarantee(mechanism, reports, delta)
        assert 0 <= answer.epsilon <= local
        assert answer.amplified == (answer.method != "local")


def test_no_amplification_is_said_plainly() -> None:
    answer = guarantee(BinaryRandomizedResponse.calibrate(8, Categories(2)), 20, 1e-9)
    assert (answer.method, answer.amplified, answer.epsilon) == ("local", False, answer.local_epsilon)


@pytest.mark.parametrize("reports", [0, -1, 1.5, math.nan, "many", True, None])
def test_batches_that_cannot_be_are_refused(reports: object) -> None:
    with pytest.raises(InvalidParameter, match="reports"):
        guarantee(RR, reports, 1e-6)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [-1e-9, math.nan, math.inf, "small", None, True])
def test_numbers_that_are_none_are_refused(number: object) -> None:
    with pytest.raises(InvalidParameter, match="delta"):
        guarantee(RR, 100, number)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="epsilon"):
        delta_at(RR, 100, number)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter):
        min_reports(RR, number, 1e-6)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter):
        AnyRandomizer(number)


def test_a_target_out_of_reach_is_refused_with_advice() -> None:
    with pytest.raises(InvalidParameter, match="larger epsilon"):
        min_reports(RR, 1e-7, 1e-9)
    with pytest.raises(InvalidParameter):
        min_reports(RR, 0.1, 0)
    assert min_reports(RR, 1.0, 0) == 1
    assert min_reports(RR, 0.1, 1) == 1


def test_dishonest_reports_are_not_counted() -> None:
    curve = guarantee_curve(KRR, 10_000, 1e-6, dishonest=[0, 5000, 9999])
    assert [point.reports for point in curve] == [10_000, 5000, 1]
    assert curve[1] == guarantee(KRR, 5000, 1e-6)
    assert curve[0].epsilon < curve[1].epsilon < curve[2].epsilon
    with pytest.raises(InvalidParameter):
        guarantee_curve(KRR, 10, 1e-6, dishonest=[10])


def test_atoms_that_are_no_pair_of_laws_are_refused() -> None:
    e, half = Fraction(3), Fraction(1, 2)
    mixed_up = Pair((Atom(half / e, e, Fraction(1)), Atom(half / e, Fraction(1), e)))
    with pytest.raises(InvalidParameter, match="two probability laws"):
        Blankets([mixed_up])
    with pytest.raises(InvalidParameter):
        Blankets([Pair(())])


def test_a_pair_is_judged_in_both_directions() -> None:
    low, high = Fraction(336, 10_000), Fraction(1, 10)
    atoms = (
        Atom(1 - high, (1 - low) / (1 - high), Fraction(1)),
        Atom(low, Fraction(1), high / low),
    )
    turned = tuple(Atom(atom.mass, atom.second, atom.first) for atom in atoms)
    one, other = Blankets([Pair(atoms)]).delta(50, 0.3), Blankets([Pair(turned)]).delta(50, 0.3)
    assert one == other == pytest.approx(max(_one_way(atoms, 50, 0.3), _one_way(turned, 50, 0.3)), rel=1e-5)
    assert _one_way(atoms, 50, 0.3) != pytest.approx(_one_way(turned, 50, 0.3), rel=0.1)


def _one_way(atoms: tuple[Atom, ...], reports: int, epsilon: float) -> float:
    """(1/n) E[(G_1 + ... + G_n)_+] for two atoms and the gap, by the multinomial sum."""
    power = math.exp(epsilon)
    first, second = (float(atom.mass) for atom in atoms)
    gains = [float(atom.first) - power * float(atom.second) for atom in atoms]
    total = 0.0
    for a in range(reports + 1):
        for b in range(reports + 1 - a):
            weight = stats.multinomial.pmf([a, b, reports - a - b], reports, [first, second, 1 - first - second])
            total += weight * max(0.0, a * gains[0] + b * gains[1])
    return total / reports


def test_a_table_is_judged_as_its_pairs_written_out() -> None:
    mechanism = DiscreteLaplaceMean.calibrate(2, Bounds(Fraction(0), Fraction(1)), steps=5)
    table = mechanism.amplification().pairs
    assert isinstance(table, Table)
    for epsilon in (0.1, 0.5):
        assert Blankets(table).delta(300, epsilon) == pytest.approx(Blankets(list(table)).delta(300, epsilon), rel=1e-9)
    with pytest.raises(InvalidParameter, match="two probability laws"):
        Blankets(replace(table, ratios=(tuple(2 * ratio for ratio in table.ratios[0]), *table.ratios[1:])))
    with pytest.raises(InvalidParameter, match="negative ratio"):
        Blankets(replace(table, masses=(-table.masses[0], *table.masses[1:])))


def test_importing_hubbub_loads_no_numerics() -> None:
    code = "import sys, hubbub; assert not {'numpy', 'scipy', 'dp_accounting'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_delta_too_small_for_a_double_is_not_called_zero() -> None:
    """Zero would claim pure differential privacy below the local epsilon, which no shuffling gives."""
    krr = KaryRandomizedResponse.calibrate(2, Categories(10))
    rr = BinaryRandomizedResponse.calibrate(2, Categories(2))
    for mechanism in (krr, rr):
        assert delta_at(mechanism, 10**6, 0.5) > 0
        assert delta_at(mechanism, 2000, 1.9) > 0
        assert delta_at(mechanism, 2000, mechanism.realised_epsilon) == 0


@pytest.mark.parametrize("epsilon", ["0.3", "0.7", "1.1", "20.1", "29.9"])
def test_the_local_epsilon_is_rounded_up(epsilon: str) -> None:
    """A float below the decimal that was asked would promise more than the integers keep."""
    for mechanism in (
        BinaryRandomizedResponse.calibrate(epsilon, Categories(2)),
        DiscreteLaplaceMean.calibrate(epsilon, Bounds(Fraction(0), Fraction(1))),
    ):
        local = guarantee(mechanism, 1, 0).epsilon
        assert Fraction(local) >= mechanism.loss()
        together = compose([(mechanism, 1, 2)], 0).epsilon
        assert Fraction(together) >= 2 * mechanism.loss()
        assert composed_delta([(mechanism, 1, 2)], together) == 0
        assert 0 <= composed_delta([(mechanism, 1, 2)], together * (1 - 1e-15)) <= 1


def test_out_of_reach_and_out_of_proportion_questions_are_answered_or_refused() -> None:
    rr = BinaryRandomizedResponse.calibrate(1, Categories(2))
    for epsilon in (0, 1e-200):
        enough = min_reports(rr, epsilon, 0.01)
        assert guarantee(rr, enough, 0.01).epsilon <= epsilon
        with pytest.raises(InvalidParameter, match="no batch"):
            min_reports(rr, epsilon, 1e-12)
    assert delta_at(rr, 10, 10**400) == 0
    assert guarantee(rr, 10**400, 1e-6).epsilon == guarantee(rr, 10**9, 1e-6).epsilon


def test_more_reports_never_promise_less_than_one() -> None:
    for mechanism, delta in (
        (KaryRandomizedResponse.calibrate(8, Categories(4)), 0.999),
        (BinaryRandomizedResponse.calibrate(15, Categories(2)), 0.5),
    ):
        alone = guarantee(mechanism, 1, delta).epsilon
        assert guarantee(mechanism, 2, delta).epsilon <= alone * (1 + 1e-5)
