"""Shuffle accounting: certified (ε, δ) of batches of local-DP reports, alone and together.

guarantee(mechanism, reports=50_000, delta=1e-8)      # ε of one batch, and the method that gave it
delta_at(mechanism, reports, epsilon)                 # the other way round
min_reports(mechanism, epsilon=0.5, delta=1e-8)       # the smallest batch that meets a target
compose([(mechanism, reports, times), ...], delta)    # a device that takes part repeatedly
Ledger()                                              # a device that took part in everything so far
share_credit(mechanism, Fraction(1, 10), 5_000, 1e-8) # for those who do not know which devices reported
PrivacyCurve(batches, devices=3)                      # δ at any ε, for a group; errors of every test

Every number is an upper bound on the true one, under replacement of one device's value. docs/explanation/accounting.md
proves it step by step. `reports` counts honest reports, including the protected one.
"""

from hubbub.accounting.any_randomizer import AnyRandomizer, CloneRandomizer
from hubbub.accounting.compose import Composition, compose, composed_delta
from hubbub.accounting.guarantee import (
    Guarantee,
    Randomizer,
    delta_at,
    guarantee,
    guarantee_curve,
    min_reports,
)
from hubbub.accounting.honest_reports import (
    FAILURE_SHARE,
    honest_reports,
    honest_reports_in_part,
    pessimistic_honest_reports,
)
from hubbub.accounting.privacy_curve import PrivacyCurve
from hubbub.accounting.release_ledger import Ledger, Release
from hubbub.accounting.share_credit import SampledRandomizer, ShareCredit, credit_of, share_credit

__all__ = [
    "FAILURE_SHARE",
    "AnyRandomizer",
    "CloneRandomizer",
    "Composition",
    "Guarantee",
    "Ledger",
    "PrivacyCurve",
    "Randomizer",
    "Release",
    "SampledRandomizer",
    "ShareCredit",
    "compose",
    "composed_delta",
    "credit_of",
    "delta_at",
    "guarantee",
    "guarantee_curve",
    "honest_reports",
    "honest_reports_in_part",
    "min_reports",
    "pessimistic_honest_reports",
    "share_credit",
]
